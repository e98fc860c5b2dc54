#pragma once

// Pinned host memory: ordinary pages that the device knows of, so is_pinned() tells the truth.

namespace at {
struct HostAllocator;
}

namespace neuron {

// Around a fork, as for device memory.
void lock_pinned_memory();
void unlock_pinned_memory();

at::HostAllocator* pinned_allocator();
bool is_pinned(const void* address);

}  // namespace neuron
