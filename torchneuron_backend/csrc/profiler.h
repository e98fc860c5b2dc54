#pragma once

// What torch.profiler sees of the device: a kernel on its device's queue for all that runs natively, and the mark
// that torch's own fallback leaves, a child range named aten::_to_cpu, for all that falls back.

#include <ATen/record_function.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace neuron {

// The number by which the profiler knows the operator call that this thread is in; 0: none.
int32_t current_correlation();

// The time from construction to finish() is work of a device, if anybody is profiling.
class DeviceActivity {
 public:
  DeviceActivity(const std::string& name, c10::DeviceIndex device)
      : DeviceActivity(name, device, current_correlation()) {}
  // Work of an operator call that another thread has made.
  DeviceActivity(const std::string& name, c10::DeviceIndex device, int32_t correlation);
  void finish() const;

 private:
  const std::string& name_;
  const c10::DeviceIndex device_;
  const int32_t correlation_;
  const int64_t started_;  // in ns since the epoch; 0: nobody is profiling
};

// The host's part of a fallback.
class FallbackMark {
 public:
  FallbackMark() : range_(at::RecordScope::FUNCTION) {
    if (range_.isActive()) {
      range_.before("aten::_to_cpu");
    }
  }

 private:
  at::RecordFunction range_;
};

}  // namespace neuron
