#pragma once

// The boxed kernel: any operator, run by its host kernel, either on device memory in place (native) or on
// copies (fallback). Which of the two is decided per call, from the lowering table: by the dtype and, for some, by a
// condition on the arguments.

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/stack.h>

#include <vector>

#include "op_plan.h"

namespace neuron {

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
