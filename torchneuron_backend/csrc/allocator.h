#pragma once

// Device memory: a caching allocator per device, with books, and a limit that makes out-of-memory real.

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Storage.h>

#include <cstddef>

namespace neuron {

// Every block starts on such a boundary, which is what the host's vector kernels like best.
constexpr size_t kAlignment = 64;

c10::DeviceAllocator* device_allocator();

// Takes over memory that a host kernel has just produced, without a copy: the memory enters the books of
// `device` (and counts against its limit) and stays alive, through `keep_alive`, until the result dies. In protect
// mode it is copied into memory that can be closed.
c10::DataPtr adopt_memory(c10::Storage keep_alive, c10::Device device);

// Makes the context of `pointer` its address, the form in which torch shares memory until it is written. False, with
// nothing done, where the memory is not this allocator's.
bool make_simple(c10::DataPtr& pointer);

// Around a fork: a queue's thread, which the child does not have, may be freeing memory at that moment.
void lock_memory_books();
void unlock_memory_books();

// Bytes that device `index` may hold; 0 restores the default (NEURON_SIM_MEMORY_LIMIT, else 24 GiB).
void set_memory_limit(c10::DeviceIndex index, size_t bytes);
size_t memory_limit(c10::DeviceIndex index);

// Throws torch.OutOfMemoryError as if `bytes` could not be had on `index`.
[[noreturn]] void throw_out_of_memory(c10::DeviceIndex index, size_t bytes);

}  // namespace neuron
