// The operators a device must bring itself: allocation, views, resizing, copies.
//
// They need no lowering: none of them computes. Counted as kind "meta" (allocation and views, which move
// nothing) or "copy" (data movement), so that operator coverage can leave them out.

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "allocator.h"
#include "counters.h"
#include "device.h"
#include "faults.h"
#include "host_allocator.h"
#include "profiler.h"
#include "queue.h"
#include "refusals.h"
#include "storage.h"
#include "streams.h"

namespace neuron {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

// Made as the library loads, so that their kind is known before their first call.
OpRecord& empty_memory_format_record = op_record("aten::empty.memory_format", Kind::Meta);
OpRecord& empty_strided_record = op_record("aten::empty_strided", Kind::Meta);
OpRecord& efficientzerotensor_record = op_record("aten::_efficientzerotensor", Kind::Meta);
OpRecord& as_strided_record = op_record("aten::as_strided", Kind::Meta);
OpRecord& view_record = op_record("aten::view", Kind::Meta);
OpRecord& reshape_alias_record = op_record("aten::_reshape_alias", Kind::Meta);
OpRecord& unfold_record = op_record("aten::unfold", Kind::Meta);
OpRecord& view_as_real_record = op_record("aten::view_as_real", Kind::Meta);
OpRecord& view_as_complex_record = op_record("aten::view_as_complex", Kind::Meta);
OpRecord& resize_record = op_record("aten::resize_", Kind::Meta);
OpRecord& set__source_Storage_storage_offset_record = op_record("aten::set_.source_Storage_storage_offset", Kind::Meta);
OpRecord& copy_from_record = op_record("aten::_copy_from", Kind::Copy);
OpRecord& local_scalar_dense_record = op_record("aten::_local_scalar_dense", Kind::Copy);

bool on_neuron(const at::Tensor& tensor) {
  return tensor.device().type() == kNeuron;
}

c10::Device neuron_device(std::optional<c10::Device> device) {
  return c10::Device(kNeuron, checked_index(device.has_value() ? device->index() : -1));
}

bool fills_new_memory() {
  return at::globalContext().deterministicAlgorithms() && at::globalContext().deterministicFillUninitializedMemory();
}

void check_new_tensor(at::ScalarType dtype, std::optional<at::Layout> layout, std::optional<bool> pin_memory) {
  check_dtype(dtype);
  TORCH_CHECK_NOT_IMPLEMENTED(layout.value_or(at::kStrided) == at::kStrided, "neuron tensors are dense; the layout ",
                              layout.value_or(at::kStrided), " is not supported");
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                 std::optional<at::Device> device, std::optional<bool> pin_memory,
                 std::optional<at::MemoryFormat> memory_format) {
  KernelScope scope(empty_memory_format_record);
  check_new_tensor(c10::dtype_or_default(dtype), layout, pin_memory);
  const c10::DeviceGuard guard(neuron_device(device));
  faults::before(empty_memory_format_record, current_device());
  const auto scalar_type = c10::dtype_or_default(dtype);
  at::Tensor made = at::detail::empty_generic(size, device_allocator(), kKeys, scalar_type, memory_format);
  scope.finish(scalar_type, Route::Native, 0);
  return fills_new_memory() ? at::native::fill_empty_deterministic_(made) : made;
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> layout, std::optional<at::Device> device,
                         std::optional<bool> pin_memory) {
  KernelScope scope(empty_strided_record);
  check_new_tensor(c10::dtype_or_default(dtype), layout, pin_memory);
  const c10::DeviceGuard guard(neuron_device(device));
  faults::before(empty_strided_record, current_device());
  const auto scalar_type = c10::dtype_or_default(dtype);
  at::Tensor made = at::detail::empty_strided_generic(size, stride, device_allocator(), kKeys, scalar_type);
  scope.finish(scalar_type, Route::Native, 0);
  return fills_new_memory() ? at::native::fill_empty_deterministic_(made) : made;
}

// A tensor that is known to be zero has sizes and no memory; torch makes them for gradients that vanish.
at::Tensor efficient_zeros(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                           std::optional<at::Device> device, std::optional<bool> pin_memory) {
  KernelScope scope(efficientzerotensor_record);
  const auto scalar_type = c10::dtype_or_default(dtype);
  check_new_tensor(scalar_type, layout, pin_memory);
  use_device();
  const size_t bytes = at::detail::computeStorageNbytesContiguous(size, c10::elementSize(scalar_type));
  c10::Storage none(c10::Storage::use_byte_size_t(), bytes, c10::DataPtr(nullptr, neuron_device(device)), nullptr,
                    /*resizable=*/false);
  auto made = at::detail::make_tensor<c10::TensorImpl>(std::move(none), kKeys | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor),
                                                       c10::scalarTypeToTypeMeta(scalar_type));
  made.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  scope.finish(scalar_type, Route::Native, 0);
  return made;
}

// Counts a view and hands it on.
template <typename Function>
at::Tensor counted_view(OpRecord& record, const at::Tensor& self, Function function) {
  KernelScope scope(record);
  faults::before(record, self.device().index());
  at::Tensor view = function();
  scope.finish(self.scalar_type(), Route::Native, 0);
  return view;
}

at::Tensor as_strided(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride,
                      std::optional<int64_t> storage_offset) {
  return counted_view(as_strided_record, self,
                      [&] { return at::native::as_strided_tensorimpl(self, size, stride, storage_offset); });
}

at::Tensor view(const at::Tensor& self, at::IntArrayRef size) {
  return counted_view(view_record, self, [&] { return at::native::view(self, size); });
}

at::Tensor reshape_alias(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride) {
  return counted_view(reshape_alias_record, self, [&] { return at::native::_reshape_alias(self, size, stride); });
}

at::Tensor unfold(const at::Tensor& self, int64_t dimension, int64_t size, int64_t step) {
  return counted_view(unfold_record, self, [&] { return at::native::unfold(self, dimension, size, step); });
}

at::Tensor view_as_real(const at::Tensor& self) {
  return counted_view(view_as_real_record, self, [&] { return at::native::view_as_real(self); });
}

at::Tensor view_as_complex(const at::Tensor& self) {
  return counted_view(view_as_complex_record, self, [&] { return at::native::view_as_complex(self); });
}

// Makes room for `bytes` in the tensor's storage, never giving any back.
void grow_storage(const at::Tensor& self, size_t bytes) {
  c10::StorageImpl* storage = self.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  if (bytes > storage->nbytes()) {
    resize_storage(*storage, bytes);
  }
}

const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> memory_format) {
  KernelScope scope(resize_record);
  const auto old_bytes = self.storage().nbytes();
  if (self.sizes() != size) {
    const size_t bytes = at::detail::computeStorageNbytesContiguous(size, self.itemsize(),
                                                                    static_cast<size_t>(self.storage_offset()));
    if (self.numel() == 0 || c10::multiply_integers(size) != 0) {
      grow_storage(self, bytes);
    }
    self.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  }
  if (memory_format.has_value()) {
    TORCH_CHECK(*memory_format != at::MemoryFormat::Preserve, "Unsupported memory format", *memory_format);
    self.unsafeGetTensorImpl()->empty_tensor_restride(*memory_format);
  }
  scope.finish(self.scalar_type(), Route::Native, 0);
  if (fills_new_memory()) {
    at::native::fill_resize_deterministic_(self, static_cast<int64_t>(old_bytes));
  }
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size,
                        at::IntArrayRef stride) {
  KernelScope scope(set__source_Storage_storage_offset_record);
  at::native::checkSetStorage(self, std::move(source), offset, size, stride);
  auto* impl = self.unsafeGetTensorImpl();
  if (stride.data() != nullptr) {
    grow_storage(self, at::detail::computeStorageNbytes(size, stride, self.itemsize(), static_cast<size_t>(offset)));
    impl->set_sizes_and_strides(size, stride, offset);
  } else {
    grow_storage(self,
                 at::detail::computeStorageNbytesContiguous(size, self.itemsize(), static_cast<size_t>(offset)));
    impl->set_storage_offset(offset);
    impl->set_sizes_contiguous(size);
  }
  scope.finish(self.scalar_type(), Route::Native, 0);
  return self;
}

at::Tensor& set_whole_storage(at::Tensor& self, at::Storage source) {
  const int64_t size = static_cast<int64_t>(source.nbytes() / self.itemsize());
  return set_storage(self, std::move(source), 0, {size}, at::IntArrayRef(nullptr, static_cast<size_t>(0)));
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  if (self.unsafeGetTensorImpl() == source.unsafeGetTensorImpl()) {
    return self;
  }
  return set_storage(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_nothing(at::Tensor& self) {
  const c10::DeviceGuard guard(self.device());
  at::Storage fresh(at::Storage::use_byte_size_t(), 0, device_allocator(), true);
  return set_whole_storage(self, std::move(fresh));
}

// How many of `tensor`'s bytes cross a border on the way from `source` to `target`.
uint64_t border_bytes(const at::Tensor& source, const at::Tensor& target) {
  return source.device() == target.device() ? 0 : target.numel() * source.itemsize();
}

// The memory of `tensor` as the host sees it, through `storage` when that is its storage's host side already.
at::Tensor host_side(const at::Tensor& tensor) {
  return on_neuron(tensor) ? alias_on_host(tensor, host_storage_over(tensor.storage(), false)) : tensor;
}

// Whether the host's copy can do without errors and warnings, which belong to the call and not to a synchronisation.
bool is_plain_copy(const at::Tensor& self, const at::Tensor& target) {
  return self.layout() == at::kStrided && target.layout() == at::kStrided &&
      at::is_expandable_to(self.sizes(), target.sizes()) && at::has_internal_overlap(target) == at::MemOverlap::No &&
      !(self.device() == target.device() && self.is_alias_of(target)) &&
      (!self.is_complex() || target.is_complex());
}

bool is_in_pinned_memory(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.has_storage() && is_pinned(tensor.storage().data());
}

at::Tensor snapshot(const at::Tensor& tensor) {
  return on_neuron(tensor) ? device_tensor(tensor.storage(), tensor) : alias_on_host(tensor, tensor.storage());
}

// Queues a copy that the host need not wait for: within the device, between two, and from or to pinned memory where
// that is asked for. Other host memory may change as soon as the call returns.
bool launch_copy(const at::Tensor& self, const at::Tensor& target, bool non_blocking, faults::Fault fault) {
  const auto reachable = [&](const at::Tensor& tensor) {
    return on_neuron(tensor) || (non_blocking && is_in_pinned_memory(tensor));
  };
  if (fault == faults::Fault::OutOfMemory || !reachable(self) || !reachable(target) || !is_plain_copy(self, target)) {
    return false;
  }
  const c10::DeviceIndex index = (on_neuron(target) ? target : self).device().index();
  const c10::Stream stream = current_stream(index);
  const bool between_devices = on_neuron(self) && self.device() != target.device() && on_neuron(target);
  if (between_devices) {
    queue::wait_for(stream, queue::record(current_stream(self.device().index())));
  }
  queue::launch(stream, copy_from_record.name, [from = snapshot(self), to = snapshot(target), index, fault,
                                                correlation = current_correlation()] {
    faults::act_out(fault, copy_from_record, index);
    const KernelScope scope(copy_from_record);
    const at::AutoDispatchBelowADInplaceOrView below;
    const DeviceActivity activity(copy_from_record.name, index, correlation);
    host_side(to).copy_(host_side(from));
    activity.finish();
    scope.count(from.scalar_type(), Route::Native, border_bytes(from, to));
  });
  if (between_devices) {
    queue::wait_for(current_stream(self.device().index()), queue::record(stream));
  }
  note_kernel(copy_from_record, self.scalar_type(), Route::Native);
  return true;
}

// What a copy that is waited for comes after.
void synchronize_streams_of(const at::Tensor& self, const at::Tensor& target) {
  for (const at::Tensor* tensor : {&self, &target}) {
    if (on_neuron(*tensor)) {
      queue::synchronize(current_stream(tensor->device().index()));
    }
  }
}

// All copies that touch the device: to it, from it, within it and between two; with any dtypes, strides,
// broadcasting and math bits, because the host's own copy does the work on aliases of device memory.
at::Tensor copy_from(const at::Tensor& self, const at::Tensor& target, bool non_blocking) {
  use_device();
  KernelScope scope(copy_from_record);
  const c10::DeviceIndex index = (on_neuron(target) ? target : self).device().index();
  const auto fault = faults::strike(copy_from_record);
  if (on_neuron(target)) {
    own_memory(target);
  }
  if (queue::active()) {
    if (queue::asynchronous() && launch_copy(self, target, non_blocking, fault)) {
      return target;
    }
    synchronize_streams_of(self, target);
    scope.restart();
  }
  faults::act_out(fault, copy_from_record, index);
  if (!on_neuron(target)) {
    faults::raise_late_error();
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  const at::Tensor host_target = host_side(target);
  const at::Tensor host_self = on_neuron(self) && on_neuron(target) && self.is_alias_of(target)
      ? alias_on_host(self, host_target.storage())
      : host_side(self);
  const DeviceActivity activity(copy_from_record.name, index);
  host_target.copy_(host_self);
  activity.finish();
  scope.finish(self.scalar_type(), Route::Native, border_bytes(self, target));
  return target;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& target) {
  if (self.sizes() != target.sizes()) {
    target.resize_(self.sizes());
  }
  return copy_from(self, target, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  use_device();
  KernelScope scope(local_scalar_dense_record);
  faults::before(local_scalar_dense_record, self.device().index());
  queue::synchronize(current_stream(self.device().index()));
  scope.restart();
  const at::AutoDispatchBelowADInplaceOrView below;
  const at::Scalar value = at::native::_local_scalar_dense_cpu(host_side(self));
  scope.finish(self.scalar_type(), Route::Native, self.itemsize());
  return value;
}

// nn.Module.to() keeps a parameter's identity, and with it ties between parameters, only when torch thinks that
// the new tensor can take the old one's place. Its own answer knows a fixed list of devices that PrivateUse1 is not
// on; but a dense neuron tensor is as plain a TensorImpl as a dense CPU one, and they can be exchanged.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  const auto plain = [](const at::Tensor& tensor) {
    return tensor.layout() == at::kStrided && (tensor.is_cpu() || on_neuron(tensor)) && !tensor.is_quantized() &&
        !tensor.key_set().has(c10::DispatchKey::Python);
  };
  return plain(self) && plain(from);
}

bool is_set_to(const at::Tensor& self, const at::Tensor& source) {
  return at::native::is_set_to(self, source);
}

// Queued work holds the memory it uses, so it is never reused before that work is done, on whatever stream.
void record_stream(at::Tensor& self, at::Stream) {}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("_efficientzerotensor", &efficient_zeros);
  m.impl("as_strided", &as_strided);
  m.impl("view", &view);
  m.impl("_reshape_alias", &reshape_alias);
  m.impl("unfold", &unfold);
  m.impl("view_as_real", &view_as_real);
  m.impl("view_as_complex", &view_as_complex);
  m.impl("resize_", &resize);
  m.impl("set_.source_Storage", &set_whole_storage);
  m.impl("set_.source_Storage_storage_offset", &set_storage);
  m.impl("set_.source_Tensor", &set_tensor);
  m.impl("set_", &set_nothing);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &local_scalar_dense);
  m.impl("_has_compatible_shallow_copy_type", &has_compatible_shallow_copy_type);
  m.impl("is_set_to", &is_set_to);
  m.impl("record_stream", &record_stream);
}

// The host's copy resolves conjugate and negative bits itself. Without this, torch's math-bit fallback would
// resolve them by a clone, that clone by a copy, and that copy by another clone, without end.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

}  // namespace
}  // namespace neuron
