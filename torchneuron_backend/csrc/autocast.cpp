// torch.autocast("neuron"): the casting lists are CUDA's, as the real device documents.

#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace {

// The casting lists name these without a namespace.
using at::IntArrayRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;

// Ops on no list run in the dtypes they are given. Without this, every op inside autocast would raise.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

#define TO_LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define TO_FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define TO_FLOAT32_UNLESS_TOLD(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define TO_WIDEST(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)

at::Tensor refuse_binary_cross_entropy(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                                       int64_t) {
  TORCH_CHECK(false,
              "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: their input is "
              "already a probability. Use binary_cross_entropy_with_logits, or leave autocast for the loss.");
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  AT_FORALL_LOWER_PRECISION_FP(TO_LOWER_PRECISION)
  AT_FORALL_FP32(TO_FLOAT32)
  AT_FORALL_FP32_SET_OPT_DTYPE(TO_FLOAT32_UNLESS_TOLD)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(TO_WIDEST)
  m.impl("binary_cross_entropy", &refuse_binary_cross_entropy);
}

}  // namespace
