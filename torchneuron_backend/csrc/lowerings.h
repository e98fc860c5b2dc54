#pragma once

// Registration from the lowering table: which operators get a kernel of their own on the device.

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace neuron {

// Registers, once, every operator of the table as a boxed kernel. An entry is an overload ("aten::add.Tensor") and
// the dtypes it is native for, one bit per c10::ScalarType; a conditional one has a condition's name too. In-place and
// out= variants of an entry are native where the functional form is, and so is the device's own kernel of an entry
// where it runs boxed. Names the installed torch does not know are ignored; a condition it must know. Returns how many
// were registered.
size_t register_lowerings(const std::vector<std::pair<std::string, uint64_t>>& table,
                          const std::vector<std::tuple<std::string, uint64_t, std::string>>& conditional);

// Whether the kernel of `op` (an overload) runs on device memory for `dtype`, whatever else its arguments: by the
// table, or because the device
// brings it itself (allocation, views, copies). False for a composite operator, which has no kernel but its parts'.
bool is_native(const std::string& op, int dtype);

}  // namespace neuron
