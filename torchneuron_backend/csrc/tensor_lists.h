#pragma once

// Lists of tensors as arguments. IValue's own questions compare element types to the letter, and TorchScript makes
// lists that are none of the two by that.

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

namespace neuron {

// A list of which some tensors may be missing (Tensor?[]).
inline bool is_list_with_gaps(const c10::IValue& value) {
  if (value.isTensorList() || !value.isList()) {
    return false;
  }
  if (value.isOptionalTensorList()) {
    return true;
  }
  const auto optional = value.toList().elementType()->cast<c10::OptionalType>();
  return optional != nullptr && optional->getElementType()->kind() == c10::TypeKind::TensorType;
}

// A list of tensors, with gaps or without.
inline bool is_tensor_list(const c10::IValue& value) {
  return value.isTensorList() || is_list_with_gaps(value) ||
      (value.isList() && value.toList().elementType()->kind() == c10::TypeKind::TensorType);
}

}  // namespace neuron
