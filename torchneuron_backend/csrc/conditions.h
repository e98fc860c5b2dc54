#pragma once

// What must hold of a call, besides its dtype, for a lowering to apply: a closed list, by the names of lowerings.json.

#include <ATen/core/stack.h>

#include <cstdint>
#include <optional>
#include <string>

namespace neuron {

struct OpPlan;

enum class Condition : uint8_t {
  IntegerIndices,  // "integer_indices": no tensor in a list is a mask, whose true elements would decide on shapes
  SmallMatrices,   // "small_matrices": no matrix has more than 128 rows and 128 columns; factorised row by row
  TinyMatrices,    // "tiny_matrices": no matrix has more than 16 rows and 16 columns; diagonalised by rotations
};
constexpr size_t kConditions = 3;

// None for a name that is not on the list.
std::optional<Condition> condition_named(const std::string& name);

// Whether the condition holds of the call whose arguments are the last on the stack.
bool holds(Condition condition, const OpPlan& plan, const torch::jit::Stack& stack);

}  // namespace neuron
