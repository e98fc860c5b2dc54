// Operators that torch routes to every PrivateUse1 device and for which there is no host kernel, or not for every dtype
// that accelerators take, or whose generic form takes what the host's and CUDA's refuse.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/all_native.h>
#include <ATen/ops/any_native.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <tuple>

#include "boxed.h"

namespace neuron {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// torch's generic convolution calls these on unknown devices. The device runs aten::convolution itself (boxed),
// so they are reached only when called by name.
Tensor convolution_overrideable(const Tensor& input, const Tensor& weight, const OptionalTensor& bias,
                                at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                                bool transposed, at::IntArrayRef output_padding, int64_t groups) {
  return at::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward_overrideable(
    const Tensor& grad_output, const Tensor& input, const Tensor& weight, at::IntArrayRef stride,
    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding, int64_t groups,
    std::array<bool, 3> output_mask) {
  const int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
  const std::array<int64_t, 1> bias_sizes{channels};
  return at::convolution_backward(grad_output, input, weight, at::OptionalIntArrayRef(bias_sizes), stride, padding,
                                  dilation, transposed, output_padding, groups, output_mask);
}

bool given(const OptionalTensor& tensor) {
  return tensor.has_value() && tensor->defined();
}

Tensor plus_bias(const Tensor& gates, const OptionalTensor& bias) {
  return given(bias) ? gates + *bias : gates;
}

// The fused recurrent cells, from operators the device has. The workspace is what backward needs: for the LSTM the
// activated gates [batch, 4 * hidden] in torch's order (in, forget, cell, out).
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                             const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  const Tensor gates = plus_bias(hidden_gates, hidden_bias) + plus_bias(input_gates, input_bias);
  const auto parts = gates.chunk(4, 1);
  const Tensor in = parts[0].sigmoid(), forget = parts[1].sigmoid(), cell = parts[2].tanh(), out = parts[3].sigmoid();
  const Tensor cy = forget * cx + in * cell;
  return {out * cy.tanh(), cy, at::cat({in, forget, cell, out}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const OptionalTensor& grad_hy, const OptionalTensor& grad_cy,
                                                      const Tensor& cx, const Tensor& cy, const Tensor& workspace,
                                                      bool has_bias) {
  const auto gates = workspace.chunk(4, 1);
  const Tensor &in = gates[0], &forget = gates[1], &cell = gates[2], &out = gates[3];
  const Tensor bent = cy.tanh();
  const Tensor from_hy = given(grad_hy) ? *grad_hy : at::zeros_like(cy);
  Tensor to_cy = from_hy * out * (1 - bent * bent);
  if (given(grad_cy)) {
    to_cy = to_cy + *grad_cy;
  }
  const Tensor grad_gates = at::cat({to_cy * cell * in * (1 - in), to_cy * cx * forget * (1 - forget),
                                     to_cy * in * (1 - cell * cell), from_hy * bent * out * (1 - out)}, 1);
  return {grad_gates, to_cy * forget, has_bias ? grad_gates.sum(0) : Tensor()};
}

// For the GRU the workspace is (reset, update, new, hx, hidden part of new), [batch, 5 * hidden].
std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
                                    const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  const auto input = plus_bias(input_gates, input_bias).chunk(3, 1);
  const auto hidden = plus_bias(hidden_gates, hidden_bias).chunk(3, 1);
  const Tensor reset = (hidden[0] + input[0]).sigmoid(), update = (hidden[1] + input[1]).sigmoid();
  const Tensor fresh = (input[2] + hidden[2] * reset).tanh();
  return {(hx - fresh) * update + fresh, at::cat({reset, update, fresh, hx, hidden[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy, const Tensor& workspace,
                                                                     bool has_bias) {
  const auto saved = workspace.chunk(5, 1);
  const Tensor &reset = saved[0], &update = saved[1], &fresh = saved[2], &hx = saved[3], &hidden_new = saved[4];
  const Tensor grad_new = grad_hy * (1 - update) * (1 - fresh * fresh);
  const Tensor grad_reset = grad_new * hidden_new * reset * (1 - reset);
  const Tensor grad_update = grad_hy * (hx - fresh) * update * (1 - update);
  const Tensor grad_input = at::cat({grad_reset, grad_update, grad_new}, 1);
  const Tensor grad_hidden = at::cat({grad_reset, grad_update, grad_new * reset}, 1);
  return {grad_input, grad_hidden, grad_hy * update, has_bias ? grad_input.sum(0) : Tensor(),
          has_bias ? grad_hidden.sum(0) : Tensor()};
}

// Accelerators count integers too, and mixture-of-experts code written for them relies on it; the host kernel
// knows floats only. float64 holds every int32, and every expert's number, exactly.
void histc(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  auto& self = torch::jit::peek(*stack, 0, 4);
  const auto dtype = self.toTensor().scalar_type();
  if (c10::isIntegralType(dtype, /*includeBool=*/false)) self = self.toTensor().to(at::kDouble);
  run_boxed(plan_for(op), op, stack);
  if (c10::isIntegralType(dtype, /*includeBool=*/false)) stack->back() = stack->back().toTensor().to(dtype);
}

// Over several dimensions torch has kernels for the host and CUDA, and for other devices a form that copies its
// result into an out= of any dtype. Over one dimension all refuse that, in these words.
void check_logical_out(const char* name, const Tensor& out) {
  const auto dtype = out.scalar_type();
  TORCH_CHECK(dtype == at::kBool || dtype == at::kByte, name, " only supports bool tensor for result, got: ", dtype);
}

Tensor& all_dims_out(const Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, Tensor& out) {
  check_logical_out("all", out);
  return at::native::all_dims_out_default(self, dim, keepdim, out);
}

Tensor& any_dims_out(const Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, Tensor& out) {
  check_logical_out("any", out);
  return at::native::any_dims_out_default(self, dim, keepdim, out);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("all.dims_out", &all_dims_out);
  m.impl("any.dims_out", &any_dims_out);
  m.impl("histc", torch::CppFunction::makeFromBoxedFunction<&histc>());
  m.impl("convolution_overrideable", &convolution_overrideable);
  m.impl("convolution_backward_overrideable", &convolution_backward_overrideable);
  m.impl("_thnn_fused_lstm_cell", &lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", &lstm_cell_backward);
  m.impl("_thnn_fused_gru_cell", &gru_cell);
  m.impl("_thnn_fused_gru_cell_backward", &gru_cell_backward);
}

}  // namespace
}  // namespace neuron
