#include "host_allocator.h"

#include <ATen/core/CachingHostAllocator.h>
#include <c10/util/Exception.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "device.h"

namespace neuron {
namespace {

constexpr size_t kPage = 4096;

// Live pinned blocks by start address. Leaked: tensors may outlive static destruction.
struct Pinned {
  std::mutex mutex;
  std::map<const char*, size_t> blocks;
  at::HostStats stats;
};

Pinned& pinned() {
  static auto* instance = new Pinned();
  return *instance;
}

void free_pinned(void* context) {
  auto* address = static_cast<char*>(context);
  auto& state = pinned();
  std::lock_guard<std::mutex> lock(state.mutex);
  auto it = state.blocks.find(address);
  state.stats.allocations.decrease(1);
  state.stats.allocated_bytes.decrease(it->second);
  state.blocks.erase(it);
  std::free(address);
}

class PinnedAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) {
      return {nullptr, nullptr, &c10::detail::deleteNothing, c10::Device(c10::kCPU)};
    }
    void* address = nullptr;
    TORCH_CHECK(posix_memalign(&address, kPage, bytes) == 0, "could not pin ", bytes, " bytes of host memory");
    auto& state = pinned();
    std::lock_guard<std::mutex> lock(state.mutex);
    state.blocks.emplace(static_cast<char*>(address), bytes);
    state.stats.allocations.increase(1);
    state.stats.allocated_bytes.increase(bytes);
    return {address, address, &free_pinned, c10::Device(c10::kCPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override {
    return &free_pinned;
  }

  void copy_data(void* target, const void* source, size_t count) const override {
    std::memcpy(target, source, count);
  }

  // A queued copy holds the block, so there is nothing to wait for before it is reused.
  bool record_event(void*, void*, c10::Stream) override {
    return true;
  }

  void empty_cache() override {}

  at::HostStats get_stats() override {
    std::lock_guard<std::mutex> lock(pinned().mutex);
    return pinned().stats;
  }

  void reset_accumulated_stats() override {
    std::lock_guard<std::mutex> lock(pinned().mutex);
    pinned().stats.allocations.reset_accumulated();
    pinned().stats.allocated_bytes.reset_accumulated();
  }

  void reset_peak_stats() override {
    std::lock_guard<std::mutex> lock(pinned().mutex);
    pinned().stats.allocations.reset_peak();
    pinned().stats.allocated_bytes.reset_peak();
  }
};

PinnedAllocator allocator;
REGISTER_HOST_ALLOCATOR(kNeuron, &allocator);

}  // namespace

at::HostAllocator* pinned_allocator() {
  return &allocator;
}

void lock_pinned_memory() {
  pinned().mutex.lock();
}

void unlock_pinned_memory() {
  pinned().mutex.unlock();
}

bool is_pinned(const void* address) {
  auto& state = pinned();
  std::lock_guard<std::mutex> lock(state.mutex);
  auto it = state.blocks.upper_bound(static_cast<const char*>(address));
  if (it == state.blocks.begin()) {
    return false;
  }
  --it;
  return static_cast<const char*>(address) < it->first + it->second;
}

}  // namespace neuron
