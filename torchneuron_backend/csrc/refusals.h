#pragma once

// What the device does not do, each refused with a sentence that names the feature and the reason.

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

namespace neuron {

// Raises for a dtype of which the device has no tensors.
void check_dtype(c10::ScalarType dtype);

// Raises for a host tensor that cannot become a neuron one: sparse, nested, quantized, or of such a dtype.
void check_can_be_on_device(const at::Tensor& host);

}  // namespace neuron
