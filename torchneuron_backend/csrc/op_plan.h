#pragma once

// What the boxed kernel has to know of an operator before it sees a call.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "conditions.h"
#include "counters.h"
#include "launch.h"

namespace neuron {

// What a schema says about one argument that the boxed kernel has to touch.
struct ArgumentPlan {
  enum class Type : uint8_t { Tensor, TensorList, Device, Generator };
  size_t index;
  Type type;
  bool written;
  bool may_be_on_host;  // beside device tensors, at any rank
  std::string name;
};

// What the schema says about one result: which argument it is (-1: none), and whether it is a view of one.
struct ResultPlan {
  int argument = -1;
  bool view = false;
};

// A schema, read once, and where its operator is native.
struct OpPlan {
  OpPlan(const c10::OperatorHandle& op);

  bool is_native(c10::ScalarType dtype) const { return (native_dtypes.load() >> static_cast<int>(dtype)) & 1; }

  // Whether the call whose arguments are the last on the stack is native.
  bool is_native(c10::ScalarType dtype, const torch::jit::Stack& stack) const;

  const c10::FunctionSchema* schema;
  OpRecord& record;
  std::vector<ArgumentPlan> arguments;
  std::vector<ResultPlan> results;
  size_t argument_count;
  bool draws_from_default;    // random, without a generator argument
  bool returns_view = false;  // some result is a view of an argument
  bool draws;                 // random, from whatever generator
  bool shape_depends_on_data; // of some result
  bool indexes;               // by tensors, which are masks or positions
  bool addresses_memory;      // by positions in an argument's storage, not in the argument (aten::as_strided_copy)
  bool boxed = false;         // registration has put a BoxedKernel on the operator
  std::atomic<uint64_t> native_dtypes{0};  // one bit per c10::ScalarType
  std::array<std::atomic<uint64_t>, kConditions> conditional_dtypes{};  // the same, where a condition holds
  LaunchTable launches;
};

OpPlan& plan_for(const c10::OperatorHandle& op);

}  // namespace neuron
