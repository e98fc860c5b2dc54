#include "conditions.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "op_plan.h"
#include "tensor_lists.h"

namespace neuron {
namespace {

using c10::IValue;

bool is_mask(const IValue& value) {
  return value.isTensor() && value.toTensor().defined() &&
      (value.toTensor().scalar_type() == at::kBool || value.toTensor().scalar_type() == at::kByte);
}

bool has_masks(const IValue& value) {
  return is_tensor_list(value) && std::ranges::any_of(value.toListRef(), is_mask);
}

bool is_larger_than(const IValue& value, int64_t rows) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().dim() >= 2 &&
      std::min(value.toTensor().size(-1), value.toTensor().size(-2)) > rows;
}

}  // namespace

std::optional<Condition> condition_named(const std::string& name) {
  if (name == "integer_indices") {
    return Condition::IntegerIndices;
  }
  if (name == "small_matrices") {
    return Condition::SmallMatrices;
  }
  if (name == "tiny_matrices") {
    return Condition::TinyMatrices;
  }
  return std::nullopt;
}

bool holds(Condition condition, const OpPlan& plan, const torch::jit::Stack& stack) {
  const size_t first = stack.size() - plan.argument_count;
  return std::ranges::none_of(plan.arguments, [&](const ArgumentPlan& argument) {
    const IValue& value = stack[first + argument.index];
    switch (condition) {
      case Condition::IntegerIndices:
        return has_masks(value);
      case Condition::SmallMatrices:
        return is_larger_than(value, 128);
      case Condition::TinyMatrices:
        return is_larger_than(value, 16);
    }
    return true;
  });
}

}  // namespace neuron
