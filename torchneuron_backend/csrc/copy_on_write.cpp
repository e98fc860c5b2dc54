// Copies that share memory until one of them is written (aten::_lazy_clone).
//
// torch keeps count of those that share, and copies when a storage hands out memory to write to. What is left to the
// device: memory in the form that this asks for, a copy on the right device, and, elsewhere, asking for memory to write
// to before a kernel writes and at no other time.

#include <ATen/core/Tensor.h>
#include <ATen/ops/_lazy_clone_native.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/COW.h>
#include <torch/library.h>

#include "allocator.h"
#include "counters.h"
#include "device.h"
#include "faults.h"
#include "storage.h"

namespace neuron {
namespace {

OpRecord& lazy_clone_record = op_record("aten::_lazy_clone", Kind::Meta);

// torch would allocate the copy on whatever device is current.
void copy_on_own_device(c10::StorageImpl* storage) {
  const c10::DeviceGuard guard(storage->device());
  c10::impl::cow::materialize_cow(storage);
}

void copy_when_written(c10::StorageImpl* storage) {
  storage->clear_materializer();
  storage->set_materializer(&copy_on_own_device);
}

// Memory that is not the allocator's own, such as a slice of a storage or what DLPack brought, has an owner that torch
// cannot count. It is copied at once.
at::Tensor copied_now(const at::Tensor& self) {
  c10::Storage copy = new_storage(self.storage().nbytes(), self.device());
  device_allocator()->copy_data(copy.mutable_data(), self.storage().data(), copy.nbytes());
  return device_tensor(std::move(copy), self);
}

at::Tensor lazy_clone(const at::Tensor& self) {
  KernelScope scope(lazy_clone_record);
  use_device();
  faults::before(lazy_clone_record, self.device().index());
  auto* storage = self.storage().unsafeGetStorageImpl();
  c10::DataPtr& pointer = storage->_mutable_data_ptr_no_checks();
  const bool shareable = c10::impl::cow::is_cow_data_ptr(pointer) || make_simple(pointer);
  at::Tensor clone = shareable ? at::native::_lazy_clone(self) : copied_now(self);
  if (shareable) {
    copy_when_written(storage);
    copy_when_written(clone.storage().unsafeGetStorageImpl());
  }
  scope.finish(self.scalar_type(), Route::Native, 0);
  return clone;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_lazy_clone", &lazy_clone);
}

}  // namespace
}  // namespace neuron
