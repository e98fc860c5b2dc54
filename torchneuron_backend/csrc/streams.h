#pragma once

// The streams of each device: which there are, which comes first, and which one this thread is on.

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

namespace neuron {

// A smaller number comes first, as in CUDA.
constexpr int kLeastPriority = 0;
constexpr int kGreatestPriority = -3;

c10::Stream default_stream(c10::DeviceIndex device);

// One of the device's 32 streams of that priority, in turn. A priority out of range becomes the nearest in it.
c10::Stream new_stream(c10::DeviceIndex device, int priority);

int priority_of(c10::StreamId stream) noexcept;

c10::Stream current_stream(c10::DeviceIndex device);

// Makes `stream` current for this thread on its device; returns the one that was.
c10::Stream exchange_stream(c10::Stream stream);

}  // namespace neuron
