#include "device.h"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <atomic>
#include <bitset>
#include <cctype>
#include <cstdlib>
#include <string>

#include "allocator.h"
#include "host_allocator.h"

namespace neuron {
namespace {

constexpr long kMaxDevices = 64;
constexpr c10::DeviceIndex kDefaultDevices = 2;

std::atomic<bool> in_use{false};
std::atomic<bool> bad_fork{false};
thread_local c10::DeviceIndex current = 0;

// How many cores a list such as "0-3,8" names, none of them twice; 0 if it is not such a list.
c10::DeviceIndex cores_in(const char* text) noexcept {
  std::bitset<kMaxDevices> cores;
  while (true) {
    char* end = nullptr;
    const long first = std::isdigit(static_cast<unsigned char>(*text)) != 0 ? std::strtol(text, &end, 10) : -1;
    long last = first;
    if (first >= 0 && *end == '-') {
      text = end + 1;
      last = std::isdigit(static_cast<unsigned char>(*text)) != 0 ? std::strtol(text, &end, 10) : -1;
    }
    if (first < 0 || last < first || last >= kMaxDevices || (*end != '\0' && *end != ',')) {
      return 0;
    }
    for (long core = first; core <= last; ++core) {
      if (cores.test(static_cast<size_t>(core))) {
        return 0;
      }
      cores.set(static_cast<size_t>(core));
    }
    if (*end == '\0') {
      return static_cast<c10::DeviceIndex>(cores.count());
    }
    text = end + 1;
  }
}

// The variables of the Neuron runtime; that which names the cores goes before that which counts them.
c10::DeviceIndex read_device_count() noexcept {
  if (const char* cores = std::getenv("NEURON_RT_VISIBLE_CORES"); cores != nullptr && *cores != '\0') {
    const c10::DeviceIndex count = cores_in(cores);
    if (count == 0) {
      TORCH_WARN("NEURON_RT_VISIBLE_CORES is '", cores, "', not a list of cores from 0 to ", kMaxDevices - 1,
                 " such as 0-3,8: no neuron device is available.");
    }
    return count;
  }
  const char* text = std::getenv("NEURON_RT_NUM_CORES");
  if (text == nullptr || *text == '\0') {
    return kDefaultDevices;
  }
  char* end = nullptr;
  const long count = std::strtol(text, &end, 10);
  if (*end != '\0' || count < 1 || count > kMaxDevices) {
    TORCH_WARN("NEURON_RT_NUM_CORES is '", text, "', not a number from 1 to ", kMaxDevices,
               ": no neuron device is available.");
    return 0;
  }
  return static_cast<c10::DeviceIndex>(count);
}

void before_fork() {
  lock_memory_books();
  lock_pinned_memory();
}

void after_fork() {
  unlock_pinned_memory();
  unlock_memory_books();
}

void after_fork_in_child() {
  after_fork();
  bad_fork.store(in_use.load());
}

}  // namespace

c10::DeviceIndex device_count() noexcept {
  static const c10::DeviceIndex count = read_device_count();
  return count;
}

c10::DeviceIndex current_device() noexcept {
  return current;
}

c10::DeviceIndex checked_index(c10::DeviceIndex index) {
  if (index == -1) {
    return current;
  }
  const int count = device_count();
  TORCH_CHECK(index >= 0 && index < count, "invalid device ordinal: neuron:", static_cast<int>(index),
              " was asked for, and there ", count == 1 ? "is " : "are ", count, " neuron device",
              count == 1 ? "" : "s", " (NEURON_RT_NUM_CORES sets how many).");
  return index;
}

void set_current_device(c10::DeviceIndex index) {
  current = checked_index(index);
}

void set_current_device_unchecked(c10::DeviceIndex index) noexcept {
  current = index;
}

void use_device() {
  if (in_use.load(std::memory_order_relaxed) && !bad_fork.load(std::memory_order_relaxed)) {
    return;
  }
  TORCH_CHECK(!bad_fork.load(),
              "Cannot re-initialize the neuron device in a forked subprocess, because the parent process had used it "
              "before the fork. Fork before the first use, or start the process with the 'spawn' or 'forkserver' "
              "method.");
  static const int registered = pthread_atfork(before_fork, after_fork, after_fork_in_child);
  TORCH_CHECK(registered == 0, "pthread_atfork failed with error ", registered);
  in_use.store(true);
}

bool device_in_use() noexcept {
  return in_use.load();
}

bool in_bad_fork() noexcept {
  return bad_fork.load();
}

}  // namespace neuron
