#include "allocator.h"

#include <c10/core/Storage.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "device.h"
#include "protect.h"
#include "queue.h"

namespace neuron {
namespace {

using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::DeviceStats;

constexpr size_t kSmall = 1 << 20;            // up to here, four sizes per power of two
constexpr size_t kLargeStep = 64 * 1024;      // above, multiples of this
constexpr size_t kDefaultLimit = 24ULL << 30; // what one logical core of a Trainium 2 has
constexpr size_t kMaxDevices = 64;

size_t round_up(size_t bytes, size_t step) {
  return (bytes + step - 1) / step * step;
}

// The size of the block that serves a request: few distinct sizes, so that freed blocks are found again.
size_t block_size(size_t bytes) {
  if (bytes <= kAlignment) {
    return kAlignment;
  }
  if (bytes <= kSmall) {
    return round_up(bytes, std::max(kAlignment, std::bit_floor(bytes - 1) / 4));
  }
  return round_up(bytes, kLargeStep);
}

size_t default_limit() {
  const char* text = std::getenv("NEURON_SIM_MEMORY_LIMIT");
  if (text == nullptr || *text == '\0') {
    return kDefaultLimit;
  }
  char* end = nullptr;
  const unsigned long long bytes = std::strtoull(text, &end, 10);
  TORCH_CHECK(*end == '\0' && bytes > 0, "NEURON_SIM_MEMORY_LIMIT is '", text, "', not a number of bytes.");
  return bytes;
}

// Null where the system has no more. `size` is a multiple of kAlignment.
void* system_allocate(size_t size) {
  if (protecting()) {
    return map_block(size);
  }
  void* address = nullptr;
  return posix_memalign(&address, kAlignment, size) == 0 ? address : nullptr;
}

void system_free(void* address) {
  protecting() ? unmap_block(address) : std::free(address);
}

struct Block {
  void* address;
  size_t size;       // bytes reserved
  size_t requested;  // bytes asked for
  c10::DeviceIndex device;
};

void increase(StatArray& stat, size_t amount, bool large) {
  stat[static_cast<size_t>(StatType::AGGREGATE)].increase(amount);
  stat[static_cast<size_t>(large ? StatType::LARGE_POOL : StatType::SMALL_POOL)].increase(amount);
}

void decrease(StatArray& stat, size_t amount, bool large) {
  stat[static_cast<size_t>(StatType::AGGREGATE)].decrease(amount);
  stat[static_cast<size_t>(large ? StatType::LARGE_POOL : StatType::SMALL_POOL)].decrease(amount);
}

int64_t current(const StatArray& stat) {
  return stat[static_cast<size_t>(StatType::AGGREGATE)].current;
}

// One device's memory. All members are guarded by `mutex`.
class Pool {
 public:
  Block* allocate(size_t bytes, c10::DeviceIndex device) {
    const size_t size = block_size(bytes);
    std::lock_guard<std::mutex> lock(mutex_);
    Block* block = take_free(size);
    if (block == nullptr) {
      make_room(size, device);
      void* address = system_allocate(size);
      if (address == nullptr) {
        fail(size, device);
      }
      block = new Block{address, size, 0, device};
      enter_segment(size);
    }
    block->requested = bytes;
    enter(*block);
    return block;
  }

  void free(Block* block) {
    std::lock_guard<std::mutex> lock(mutex_);
    leave(*block);
    free_blocks_.emplace(block->size, block);
  }

  // Books for memory that a host kernel allocated and the device took over.
  void enter_foreign(Block& block) {
    std::lock_guard<std::mutex> lock(mutex_);
    make_room(block.size, block.device);
    enter_segment(block.size);
    enter(block);
  }

  void leave_foreign(Block& block) {
    std::lock_guard<std::mutex> lock(mutex_);
    leave(block);
    leave_segment(block.size);
  }

  void release_cached() {
    std::lock_guard<std::mutex> lock(mutex_);
    release_free_blocks();
  }

  DeviceStats stats() {
    std::lock_guard<std::mutex> lock(mutex_);
    return stats_;
  }

  template <typename Function>
  void for_each_stat(Function function) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (StatArray* array : {&stats_.allocation, &stats_.segment, &stats_.active, &stats_.inactive_split,
                             &stats_.allocated_bytes, &stats_.reserved_bytes, &stats_.active_bytes,
                             &stats_.inactive_split_bytes, &stats_.requested_bytes}) {
      for (auto& stat : *array) {
        function(stat);
      }
    }
  }

  // The sums of all statistics, and the counts of what went wrong, as CUDA's allocator has it.
  void reset_accumulated() {
    for_each_stat([](auto& stat) { stat.reset_accumulated(); });
    std::lock_guard<std::mutex> lock(mutex_);
    stats_.num_alloc_retries = 0;
    stats_.num_ooms = 0;
  }

  size_t limit() {
    std::lock_guard<std::mutex> lock(mutex_);
    return limit_locked();
  }

  void set_limit(size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    limit_ = bytes;
  }

  bool has_room(size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<size_t>(current(stats_.reserved_bytes)) + block_size(bytes) <= limit_locked();
  }

  // Around a fork, so that the child finds the mutex free.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

  std::pair<size_t, size_t> free_and_total() {
    std::lock_guard<std::mutex> lock(mutex_);
    const size_t total = limit_locked();
    const size_t reserved = static_cast<size_t>(current(stats_.reserved_bytes));
    return {total - std::min(total, reserved), total};
  }

  [[noreturn]] void fail_now(size_t size, c10::DeviceIndex device) {
    std::lock_guard<std::mutex> lock(mutex_);
    fail(size, device);
  }

 private:
  size_t limit_locked() {
    if (limit_ == 0) {
      limit_ = default_limit();
    }
    return limit_;
  }

  // The smallest cached block that fits without wasting more than a quarter.
  Block* take_free(size_t size) {
    auto it = free_blocks_.lower_bound(size);
    if (it == free_blocks_.end() || it->first > size + size / 4) {
      return nullptr;
    }
    Block* block = it->second;
    free_blocks_.erase(it);
    return block;
  }

  void make_room(size_t size, c10::DeviceIndex device) {
    const size_t limit = limit_locked();
    if (static_cast<size_t>(current(stats_.reserved_bytes)) + size <= limit) {
      return;
    }
    ++stats_.num_alloc_retries;
    release_free_blocks();
    if (static_cast<size_t>(current(stats_.reserved_bytes)) + size > limit) {
      fail(size, device);
    }
  }

  void release_free_blocks() {
    for (auto& [size, block] : free_blocks_) {
      system_free(block->address);
      leave_segment(size);
      delete block;
    }
    free_blocks_.clear();
  }

  void enter_segment(size_t size) {
    ++stats_.num_device_alloc;
    increase(stats_.segment, 1, size > kSmall);
    increase(stats_.reserved_bytes, size, size > kSmall);
  }

  void leave_segment(size_t size) {
    ++stats_.num_device_free;
    decrease(stats_.segment, 1, size > kSmall);
    decrease(stats_.reserved_bytes, size, size > kSmall);
  }

  void enter(const Block& block) {
    const bool large = block.size > kSmall;
    increase(stats_.allocation, 1, large);
    increase(stats_.active, 1, large);
    increase(stats_.allocated_bytes, block.size, large);
    increase(stats_.active_bytes, block.size, large);
    increase(stats_.requested_bytes, block.requested, large);
  }

  void leave(const Block& block) {
    const bool large = block.size > kSmall;
    decrease(stats_.allocation, 1, large);
    decrease(stats_.active, 1, large);
    decrease(stats_.allocated_bytes, block.size, large);
    decrease(stats_.active_bytes, block.size, large);
    decrease(stats_.requested_bytes, block.requested, large);
  }

  [[noreturn]] void fail(size_t size, c10::DeviceIndex device) {
    ++stats_.num_ooms;
    TORCH_CHECK_WITH(OutOfMemoryError, false, "neuron:", static_cast<int>(device),
                     " out of memory. Tried to allocate ", size, " bytes; the device holds ",
                     current(stats_.allocated_bytes), " bytes in use and ", current(stats_.reserved_bytes),
                     " reserved, of a capacity of ", limit_locked(), " bytes.");
    __builtin_unreachable();
  }

  std::mutex mutex_;
  std::multimap<size_t, Block*> free_blocks_;
  DeviceStats stats_;
  size_t limit_ = 0;
};

Pool& pool(c10::DeviceIndex device) {
  // Leaked on purpose: tensors may outlive static destruction.
  static auto* pools = new std::array<Pool, kMaxDevices>();
  return (*pools)[static_cast<size_t>(device)];
}

void free_block(void* context) {
  auto* block = static_cast<Block*>(context);
  pool(block->device).free(block);
}

struct Adopted {
  Block block;
  c10::Storage keep_alive;
};

void free_adopted(void* context) {
  auto* adopted = static_cast<Adopted*>(context);
  pool(adopted->block.device).leave_foreign(adopted->block);
  delete adopted;
}

// The owners of memory whose pointer names its address in their place (make_simple), by that address.
class Owners {
 public:
  using Owner = std::unique_ptr<void, c10::DeleterFnPtr>;

  // False where the address has one already.
  bool add(void* address, Owner& owner) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return owners_.try_emplace(address, std::move(owner)).second;
  }

  // The owner's memory is freed outside the mutex, as it goes.
  Owner take(void* address) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto node = owners_.extract(address);
    return std::move(node.mapped());
  }

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, Owner> owners_;
};

Owners& owners() {
  static auto* all = new Owners();  // leaked, like the pools
  return *all;
}

void free_simple(void* address) {
  owners().take(address);
}

// Queued work holds memory that the program has already given up.
void wait_for_room(size_t bytes, c10::DeviceIndex device) {
  if (queue::active() && !pool(device).has_room(bytes)) {
    queue::finish(device);
  }
}

class Allocator final : public c10::DeviceAllocator {
 public:
  // Allocates on this thread's current device. Zero bytes give a null pointer that still names the device.
  c10::DataPtr allocate(size_t bytes) override {
    use_device();
    const c10::DeviceIndex index = current_device();
    const c10::Device device(kNeuron, index);
    if (bytes == 0) {
      return {nullptr, nullptr, &c10::detail::deleteNothing, device};
    }
    wait_for_room(bytes, index);
    Block* block = pool(index).allocate(bytes, index);
    return {block->address, block, &free_block, device};
  }

  void copy_data(void* target, const void* source, size_t count) const override {
    queue::finish_all();
    const Opening to(target), from(source);
    std::memcpy(target, source, count);
  }

  bool initialized() override {
    return device_in_use();
  }

  void emptyCache(c10::MempoolId_t) override {
    queue::finish_all();
    for (c10::DeviceIndex index = 0; index < device_count(); ++index) {
      pool(index).release_cached();
    }
  }

  // Queued work holds the memory it uses, on whatever stream.
  void recordStream(const c10::DataPtr&, c10::Stream) override {}

  // The books are read when what is queued has let go of what it holds.
  DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    queue::finish(checked_index(device));
    return pool(checked_index(device)).stats();
  }

  void resetAccumulatedStats(c10::DeviceIndex device) override {
    queue::finish(checked_index(device));
    pool(checked_index(device)).reset_accumulated();
  }

  void resetPeakStats(c10::DeviceIndex device) override {
    queue::finish(checked_index(device));
    pool(checked_index(device)).for_each_stat([](auto& stat) { stat.reset_peak(); });
  }

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    queue::finish(checked_index(device));
    return pool(checked_index(device)).free_and_total();
  }
};

Allocator allocator;
REGISTER_ALLOCATOR(kNeuron, &allocator);

}  // namespace

c10::DeviceAllocator* device_allocator() {
  return &allocator;
}

c10::DataPtr adopt_memory(c10::Storage keep_alive, c10::Device device) {
  use_device();
  const size_t bytes = keep_alive.nbytes();
  if (bytes == 0 || keep_alive.data() == nullptr) {
    return {nullptr, nullptr, &c10::detail::deleteNothing, device};
  }
  if (protecting()) {
    keep_alive = moved_into_block(keep_alive);
  }
  void* address = keep_alive.mutable_data();
  auto adopted = std::make_unique<Adopted>(
      Adopted{Block{address, round_up(bytes, kAlignment), bytes, device.index()}, std::move(keep_alive)});
  wait_for_room(bytes, device.index());
  pool(device.index()).enter_foreign(adopted->block);
  return {address, adopted.release(), &free_adopted, device};
}

bool make_simple(c10::DataPtr& pointer) {
  if (pointer.get_context() == pointer.get()) {
    return true;
  }
  if (pointer.get_deleter() != &free_block && pointer.get_deleter() != &free_adopted) {
    return false;
  }
  void* address = pointer.mutable_get();
  const c10::Device device = pointer.device();
  Owners::Owner owner = pointer.move_context();
  if (!owners().add(address, owner)) {
    pointer = {address, owner.release(), owner.get_deleter(), device};
    return false;
  }
  pointer = {address, address, &free_simple, device};
  return true;
}

void lock_memory_books() {
  owners().lock();
  for (c10::DeviceIndex device = 0; device < static_cast<c10::DeviceIndex>(kMaxDevices); ++device) {
    pool(device).lock();
  }
}

void unlock_memory_books() {
  for (c10::DeviceIndex device = 0; device < static_cast<c10::DeviceIndex>(kMaxDevices); ++device) {
    pool(device).unlock();
  }
  owners().unlock();
}

void set_memory_limit(c10::DeviceIndex index, size_t bytes) {
  pool(checked_index(index)).set_limit(bytes);
}

size_t memory_limit(c10::DeviceIndex index) {
  return pool(checked_index(index)).limit();
}

void throw_out_of_memory(c10::DeviceIndex index, size_t bytes) {
  pool(checked_index(index)).fail_now(bytes, checked_index(index));
}

}  // namespace neuron
