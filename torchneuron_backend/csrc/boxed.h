#pragma once

// The boxed kernel: any operator, run by its host kernel, either on device memory in place (native) or on
// copies (fallback). Which of the two is decided per call, from the lowering table: by the dtype and, for some, by a
// condition on the arguments.

#include <ATen/core/boxing/KernelFunction.h>
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

// A schema, read once.
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
  bool boxed = false;         // registration has put a BoxedKernel on the operator
  std::atomic<uint64_t> native_dtypes{0};  // one bit per c10::ScalarType
  std::array<std::atomic<uint64_t>, kConditions> conditional_dtypes{};  // the same, where a condition holds
  LaunchTable launches;
};

OpPlan& plan_for(const c10::OperatorHandle& op);

void run_boxed(OpPlan& plan, const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Runs a native call that was queued, in the queue's thread: `stack` holds its arguments, and its new results go into
// `results`, whose geometry they must have. Throws what the kernel throws.
void run_queued(OpPlan& plan, const c10::OperatorHandle& op, torch::jit::Stack& stack, bool in_32_bits,
                const std::vector<at::Tensor>& results);

// Whether native kernels compute 64-bit numbers in 32 bits and cast back, as the chip does; off is exact.
void compute_64_bits_in_32(bool on);
bool computes_64_bits_in_32();

// The kernel that registration puts on an operator; it knows its plan.
class BoxedKernel final : public c10::OperatorKernel {
 public:
  explicit BoxedKernel(OpPlan& plan) : plan_(plan) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    run_boxed(plan_, op, stack);
  }

 private:
  OpPlan& plan_;
};

}  // namespace neuron
