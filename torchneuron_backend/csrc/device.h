#pragma once

// Which devices there are, which one this thread is on, and whether this process may use them.

#include <c10/core/Device.h>

namespace neuron {

constexpr c10::DeviceType kNeuron = c10::DeviceType::PrivateUse1;

// Number of simulated NeuronCores: NEURON_RT_NUM_CORES, 2 when unset. Read once, at first use, so that a
// worker forked from a preloaded parent may still choose. Zero (and a warning) when it is not a number in 1..64.
c10::DeviceIndex device_count() noexcept;

c10::DeviceIndex current_device() noexcept;

// Makes `index` current for this thread; throws when there is no such device.
void set_current_device(c10::DeviceIndex index);
void set_current_device_unchecked(c10::DeviceIndex index) noexcept;

// -1 means the current device; throws when the index is out of range.
c10::DeviceIndex checked_index(c10::DeviceIndex index);

// Marks the device as in use by this process. Throws in a child forked after its parent did so: a real
// NeuronCore cannot be shared that way, and the host kernels' thread pools do not survive a fork either.
void use_device();
bool device_in_use() noexcept;
bool in_bad_fork() noexcept;

}  // namespace neuron
