#pragma once

// Pinned host memory: ordinary pages that the device knows of, so is_pinned() tells the truth.

#include <ATen/core/CachingHostAllocator.h>

namespace neuron {

at::HostAllocator* pinned_allocator();
bool is_pinned(const void* address);

}  // namespace neuron
