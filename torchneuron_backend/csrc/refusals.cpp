#include "refusals.h"

#include <ATen/NestedTensorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/view_native.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <string>

#include "counters.h"
#include "device.h"

namespace neuron {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::OperatorHandle;

constexpr char kSparse[] =
    "does not support sparse tensors (COO, CSR, CSC, BSR, BSC): its compiler knows dense arrays only. Call to_dense() "
    "on the host first";
constexpr char kNested[] =
    "does not support NestedTensor in the strided layout: its compiler knows arrays of one static shape only. Pad it, "
    "or use layout=torch.jagged, which is made of dense tensors";
constexpr char kQuantized[] =
    "does not support quantized tensors: its compiler has no quantized types. Keep integers and scales as tensors of "
    "their own, or use torch.bfloat16";
constexpr char kForwardMode[] =
    "does not support forward-mode automatic differentiation (JVP, dual tensors): it is left out on purpose, as on the "
    "real device. Use reverse mode, or torch.autograd.functional.jvp, which is made of it";
constexpr char kFile[] =
    "does not support torch.from_file: device memory cannot be a mapped file. Map it on the host and copy it with .to()";

template <const char* sentence>
[[noreturn]] void refuse(const OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "The neuron device ", sentence, ". (Refused: ", toString(op.operator_name()), ".)");
}

template <const char* sentence>
torch::CppFunction refusal() {
  return torch::CppFunction::makeFromBoxedFunction<&refuse<sentence>>();
}

// Every operator on such a tensor, its making included.
TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) {
  m.fallback(refusal<kSparse>());
}
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  m.fallback(refusal<kSparse>());
}
TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) {
  m.fallback(refusal<kNested>());
}
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(refusal<kQuantized>());
}

// Compressed sparse tensors are made by composite operators, which would get as far as a tensor nothing works on.
TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  m.impl("_sparse_compressed_tensor_unsafe", refusal<kSparse>());
  m.impl("_sparse_compressed_tensor_with_dims", refusal<kSparse>());
  m.impl("sparse_compressed_tensor.comp_plain_value", refusal<kSparse>());
  m.impl("sparse_compressed_tensor.comp_plain_value_size", refusal<kSparse>());
}

// So are nested ones, by an operator whose key does not tell which device the result is for.
void make_nested(const OperatorHandle& op, DispatchKeySet keys, torch::jit::Stack* stack) {
  constexpr size_t kArguments = 5, kDevice = 3;
  const auto& device = torch::jit::peek(*stack, kDevice, kArguments);
  const bool for_neuron = device.isNone() ? keys.has_backend(c10::BackendComponent::PrivateUse1Bit)
                                          : device.toDevice().type() == kNeuron;
  if (for_neuron) {
    refuse<kNested>(op, stack);
  }
  op.redispatchBoxed(keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, DispatchKey::BackendSelect), stack);
}

TORCH_LIBRARY_IMPL(aten, BackendSelect, m) {
  m.impl("_nested_tensor_from_tensor_list", torch::CppFunction::makeFromBoxedFunction<&make_nested>());
}

// All forward-mode differentiation starts by making a dual tensor.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("_make_dual", refusal<kForwardMode>());
}

OpRecord& view_dtype_record = op_record("aten::view.dtype", Kind::Meta);

// The other way to a tensor of another dtype, past allocation.
at::Tensor view_dtype(const at::Tensor& self, at::ScalarType dtype) {
  check_dtype(dtype);
  KernelScope scope(view_dtype_record);
  at::Tensor view = at::native::view_dtype(self, dtype);
  scope.finish(self.scalar_type(), Route::Native, 0);
  return view;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("from_file", refusal<kFile>());
  m.impl("view.dtype", &view_dtype);
}

}  // namespace

void check_dtype(c10::ScalarType dtype) {
  using c10::ScalarType;
  TORCH_CHECK_NOT_IMPLEMENTED(!c10::isQIntType(dtype), "The neuron device ", kQuantized, ". (Refused: the dtype ",
                              dtype_name(dtype), ".)");
  TORCH_CHECK_NOT_IMPLEMENTED(!c10::isFloat8Type(dtype) && dtype != ScalarType::Float4_e2m1fn_x2,
                              "The neuron device does not support the dtype ", dtype_name(dtype),
                              ": FP8 and smaller floats are in private beta on the real device, and none of their "
                              "behaviour is documented. Use torch.bfloat16.");
  TORCH_CHECK_NOT_IMPLEMENTED(
      !c10::isBitsType(dtype) && !(dtype >= ScalarType::UInt1 && dtype <= ScalarType::UInt7) &&
          !(dtype >= ScalarType::Int1 && dtype <= ScalarType::Int7),
      "The neuron device does not support the dtype ", dtype_name(dtype),
      ": it has integers of 8, 16, 32 and 64 bits only. Keep packed bits in torch.uint8.");
}

void check_can_be_on_device(const at::Tensor& host) {
  TORCH_CHECK_NOT_IMPLEMENTED(!host.is_nested(), "The neuron device ", kNested, ".");
  TORCH_CHECK_NOT_IMPLEMENTED(host.layout() == c10::kStrided || host.layout() == c10::kMkldnn, "The neuron device ",
                              kSparse, ".");
  TORCH_CHECK_NOT_IMPLEMENTED(host.layout() == c10::kStrided, "The neuron device has dense tensors only, and this one "
                              "is of layout ", host.layout(), ".");
  check_dtype(host.scalar_type());
}

}  // namespace neuron
