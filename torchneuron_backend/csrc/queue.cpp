#include "queue.h"

#include <Python.h>
#include <c10/util/Exception.h>
#include <torch/csrc/Exceptions.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "device.h"
#include "faults.h"
#include "streams.h"

namespace neuron::queue {

// Guarded by the mutex below.
struct Failure {
  std::string message;
  bool raised = false;
};

namespace detail {
std::atomic<bool> ever_asynchronous{false};
}

namespace {

using c10::DeviceIndex;
using c10::Stream;
using c10::StreamId;

// A host that runs further ahead than this waits: what is queued holds memory.
constexpr size_t kMostQueued = 1024;
constexpr size_t kMaxDevices = 64;

// One of three: work, a moment to complete, or a moment to wait for.
struct Item {
  uint64_t number;
  const std::string* op = nullptr;
  std::function<void()> work;
  std::shared_ptr<Moment> reached;
  std::shared_ptr<Moment> awaited;
};

// What is queued on one stream.
struct Lane {
  std::deque<Item> items;
  uint64_t queued = 0, finished = 0;  // how many, ever
  std::shared_ptr<Failure> failure;   // has stopped this stream, and nobody has been told
};

struct Device {
  std::map<StreamId, Lane> lanes;
  size_t unfinished = 0;
  std::condition_variable wake;
  std::optional<std::thread> worker;
};

// All guarded by one mutex: queues wait for each other's events. It is never held while an item runs or dies, nor
// while this thread waits for the GIL.
struct State {
  std::mutex mutex;
  std::condition_variable progress;
  std::array<Device, kMaxDevices> devices;
  uint64_t next_number = 0;
  uint64_t launched = 0;
  std::vector<c10::Warning> warnings;
  bool stopping = false;
};

State& state() {
  // Leaked: events may outlive static destruction.
  static auto* instance = new State();
  return *instance;
}

std::atomic<bool> launching{false};
thread_local bool in_worker = false;

// For as long as this lives, another thread may hold the GIL.
class WithoutGil {
 public:
  WithoutGil() : saved_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
  ~WithoutGil() {
    if (saved_ != nullptr) {
      PyEval_RestoreThread(saved_);
    }
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* const saved_;
};

// Waits until `done`, which is asked under the mutex. There is nothing to wait for in a queue's own thread, nor in a
// forked child, whose parent's threads do not exist.
template <typename Predicate>
void wait_until(Predicate done) {
  if (in_worker || in_bad_fork()) {
    return;
  }
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    if (done()) {
      return;
    }
  }
  const WithoutGil free;
  std::unique_lock<std::mutex> lock(state().mutex);
  state().progress.wait(lock, done);
}

Device& device_of(DeviceIndex index) {
  return state().devices[static_cast<size_t>(index)];
}

bool can_run(const Item& item) {
  return item.awaited == nullptr || item.awaited->done.load(std::memory_order_relaxed);
}

// The stream to take from: the highest priority, and among equals what was launched first.
std::pair<const StreamId, Lane>* next_lane(Device& device) {
  std::pair<const StreamId, Lane>* best = nullptr;
  const auto before = [](const auto& a, const auto& b) {
    const int first = priority_of(a.first), second = priority_of(b.first);
    return first != second ? first < second : a.second.items.front().number < b.second.items.front().number;
  };
  for (auto& lane : device.lanes) {
    if (!lane.second.items.empty() && can_run(lane.second.items.front()) &&
        (best == nullptr || before(lane, *best))) {
      best = &lane;
    }
  }
  return best;
}

void wake_all() {
  for (Device& device : state().devices) {
    if (device.worker.has_value()) {
      device.wake.notify_one();
    }
  }
}

// With the mutex held.
void complete(Moment& moment, std::shared_ptr<Failure> failure) {
  moment.when = std::chrono::steady_clock::now();
  moment.failure = std::move(failure);
  moment.done.store(true, std::memory_order_release);
  wake_all();
}

std::shared_ptr<Failure> failure_of(const std::string& op, DeviceIndex device, StreamId stream, const char* reason) {
  const std::string lane = stream == 0 ? "the default stream" : "stream " + std::to_string(stream);
  return std::make_shared<Failure>(Failure{c10::str(
      op, " failed on neuron:", static_cast<int>(device), " in ", lane,
      " and is reported now, at a synchronisation; what was queued behind it has been dropped: ", reason)});
}

std::shared_ptr<Failure> run(const Item& item, DeviceIndex device, StreamId stream) {
  try {
    item.work();
    return nullptr;
  } catch (const c10::Error& error) {
    return failure_of(*item.op, device, stream, error.what_without_backtrace());
  } catch (const std::exception& error) {
    return failure_of(*item.op, device, stream, error.what());
  } catch (...) {
    return failure_of(*item.op, device, stream, "an error of no known kind");
  }
}

// Runs and destroys an item, without the mutex; drops it where the stream has been stopped.
std::shared_ptr<Failure> run_and_destroy(Item item, bool stopped, DeviceIndex device, StreamId stream) {
  return stopped ? nullptr : run(item, device, stream);
}

void process(DeviceIndex index, std::pair<const StreamId, Lane>& entry, std::unique_lock<std::mutex>& lock) {
  auto& [stream, lane] = entry;
  Item item = std::move(lane.items.front());
  lane.items.pop_front();
  if (item.reached != nullptr) {
    complete(*item.reached, lane.failure);
  } else if (item.awaited != nullptr) {
    const auto& failure = item.awaited->failure;
    if (lane.failure == nullptr && failure != nullptr && !failure->raised) {
      lane.failure = failure;
    }
  } else {
    const bool stopped = lane.failure != nullptr;
    lock.unlock();
    auto failure = run_and_destroy(std::move(item), stopped, index, stream);
    lock.lock();
    if (failure != nullptr) {
      lane.failure = std::move(failure);
    }
  }
  ++lane.finished;
  --device_of(index).unfinished;
  state().progress.notify_all();
}

// A warning belongs to the thread that waits, whose handler knows about Python's filters.
class KeepWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    constexpr size_t kMost = 100;
    std::lock_guard<std::mutex> lock(state().mutex);
    if (state().warnings.size() < kMost) {
      state().warnings.push_back(warning);
    }
  }
};

void give_warnings() {
  std::vector<c10::Warning> kept;
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    kept.swap(state().warnings);
  }
  if (kept.empty()) {
    return;
  }
  torch::PyWarningHandler python;  // not every binding of torch's has one around a synchronisation
  for (const auto& warning : kept) {
    c10::warn(warning);
  }
}

void work_for(DeviceIndex index) {
  in_worker = true;
  KeepWarnings handler;
  c10::WarningUtils::set_warning_handler(&handler);
  set_current_device_unchecked(index);
  Device& device = device_of(index);
  std::unique_lock<std::mutex> lock(state().mutex);
  while (true) {
    if (auto* lane = next_lane(device)) {
      process(index, *lane, lock);
    } else if (state().stopping && device.unfinished == 0) {
      return;
    } else {
      device.wake.wait(lock);
    }
  }
}

// Another thread has shut the queue down between this one's decision to launch and now.
void run_here(Item& item) {
  if (item.work) {
    item.work();
  }
  if (item.reached != nullptr) {
    std::lock_guard<std::mutex> lock(state().mutex);
    complete(*item.reached, nullptr);
  }
}

void push(const Stream& stream, Item item) {
  use_device();
  Device& device = device_of(stream.device_index());
  if (item.work) {
    wait_until([&] { return device.unfinished < kMostQueued; });
  }
  std::unique_lock<std::mutex> lock(state().mutex);
  if (state().stopping) {
    lock.unlock();
    return run_here(item);
  }
  item.number = state().next_number++;
  state().launched += item.work ? 1 : 0;
  Lane& lane = device.lanes[stream.id()];
  lane.items.push_back(std::move(item));
  ++lane.queued;
  ++device.unfinished;
  if (!device.worker.has_value()) {
    device.worker.emplace(work_for, stream.device_index());
  }
  device.wake.notify_one();
}

Lane* lane_of(const Stream& stream) {
  auto& lanes = device_of(stream.device_index()).lanes;
  const auto found = lanes.find(stream.id());
  return found == lanes.end() ? nullptr : &found->second;
}

// Lets the streams that a failure has stopped go on: whoever calls this raises it.
void take(const std::shared_ptr<Failure>& failure) {
  failure->raised = true;
  for (Device& device : state().devices) {
    for (auto& [stream, lane] : device.lanes) {
      if (lane.failure == failure) {
        lane.failure = nullptr;
      }
    }
  }
}

// Gives the warnings of what has run, and raises what `find` finds under the mutex, if it has not been raised.
template <typename Find>
void raise(Find find) {
  if (in_worker || in_bad_fork()) {
    return;
  }
  give_warnings();
  std::shared_ptr<Failure> failure;
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    failure = find();
    if (failure == nullptr || failure->raised) {
      return;
    }
    take(failure);
  }
  TORCH_CHECK(false, failure->message);
}

void finish(const Stream& stream) {
  Lane* lane = nullptr;
  uint64_t until = 0;
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    lane = lane_of(stream);
    until = lane == nullptr ? 0 : lane->queued;
  }
  if (lane != nullptr) {
    wait_until([&] { return lane->finished >= until; });
  }
}

void warn_of_untold_errors() {
  std::vector<std::shared_ptr<Failure>> untold;
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    for (Device& device : state().devices) {
      for (auto& [stream, lane] : device.lanes) {
        if (const auto failure = lane.failure; failure != nullptr) {
          take(failure);
          untold.push_back(failure);
        }
      }
    }
  }
  for (const auto& failure : untold) {
    TORCH_WARN("at the end of the process: ", failure->message);
  }
}

}  // namespace

bool asynchronous() noexcept {
  return launching.load(std::memory_order_relaxed) && !in_worker;
}

void set_asynchronous(bool on) {
  launching.store(on);
  if (on) {
    detail::ever_asynchronous.store(true);
  } else if (active()) {
    finish_all();
  }
}

void launch(const Stream& stream, const std::string& op, std::function<void()> work) {
  push(stream, Item{.op = &op, .work = std::move(work)});
}

uint64_t launched() {
  std::lock_guard<std::mutex> lock(state().mutex);
  return state().launched;
}

std::shared_ptr<Moment> record(const Stream& stream) {
  auto moment = std::make_shared<Moment>();
  if (!active() || in_worker || in_bad_fork()) {
    moment->when = std::chrono::steady_clock::now();
    moment->done.store(true, std::memory_order_release);
  } else {
    push(stream, Item{.reached = moment});
  }
  return moment;
}

void wait_for(const Stream& stream, std::shared_ptr<Moment> moment) {
  if (active() && !in_worker && !in_bad_fork()) {
    push(stream, Item{.awaited = std::move(moment)});
  }
}

bool is_idle(const Stream& stream) {
  if (!active() || in_bad_fork()) {
    return true;
  }
  std::lock_guard<std::mutex> lock(state().mutex);
  const Lane* lane = lane_of(stream);
  return lane == nullptr || lane->finished == lane->queued;
}

void synchronize(const Stream& stream) {
  if (active()) {
    finish(stream);
    raise([&] {
      const Lane* lane = lane_of(stream);
      return lane == nullptr ? nullptr : lane->failure;
    });
  }
  faults::raise_late_error();
}

void synchronize(DeviceIndex device) {
  if (active()) {
    finish(device);
    raise([&]() -> std::shared_ptr<Failure> {
      for (auto& [stream, lane] : device_of(device).lanes) {
        if (lane.failure != nullptr) {
          return lane.failure;
        }
      }
      return nullptr;
    });
  }
  faults::raise_late_error();
}

void synchronize(const Moment& moment) {
  if (active()) {
    wait_until([&] { return moment.done.load(std::memory_order_acquire); });
    raise([&] { return moment.failure; });
  }
  faults::raise_late_error();
}

void synchronize_all() {
  for (DeviceIndex device = 0; device < device_count(); ++device) {
    synchronize(device);
  }
}

// Until the queue is empty would be too late where another thread keeps launching.
void finish(DeviceIndex device) {
  if (!active()) {
    return;
  }
  std::vector<std::pair<const Lane*, uint64_t>> until;
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    for (const auto& [stream, lane] : device_of(device).lanes) {
      until.emplace_back(&lane, lane.queued);
    }
  }
  wait_until([&] {
    return std::ranges::all_of(until, [](const auto& lane) { return lane.first->finished >= lane.second; });
  });
}

void finish_all() {
  for (DeviceIndex device = 0; device < device_count(); ++device) {
    finish(device);
  }
}

void shut_down() {
  launching.store(false);
  if (!active() || in_bad_fork()) {
    return;
  }
  finish_all();
  warn_of_untold_errors();
  const WithoutGil free;
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    state().stopping = true;
    wake_all();
  }
  for (Device& device : state().devices) {
    if (device.worker.has_value()) {
      device.worker->join();
    }
  }
}

}  // namespace neuron::queue
