#pragma once

// The device's random numbers. A device generator wraps a host generator of the same algorithm, so the same
// seed gives the same numbers as on the CPU, and host kernels that stand in for the core can draw from it.

#include <ATen/core/Generator.h>

namespace neuron {

// The default generator of device `index`.
const at::Generator& default_generator(c10::DeviceIndex index);

at::Generator make_generator(c10::DeviceIndex index);

// The host generator inside a device generator.
at::Generator host_generator(const at::Generator& device_generator);

// Lets host kernels that take no generator argument draw from the device's stream instead of the host's:
// the two states are exchanged for the lifetime of this object.
class BorrowHostStream {
 public:
  explicit BorrowHostStream(c10::DeviceIndex index);
  ~BorrowHostStream();
  BorrowHostStream(const BorrowHostStream&) = delete;
  BorrowHostStream& operator=(const BorrowHostStream&) = delete;

 private:
  c10::DeviceIndex index_;
};

}  // namespace neuron
