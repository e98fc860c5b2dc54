#include "storage.h"

#include <ATen/core/TensorBase.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "allocator.h"
#include "device.h"
#include "protect.h"
#include "queue.h"
#include "refusals.h"

namespace neuron {
namespace {

// What a host storage over device memory holds: the device's own storage, or nothing, and the memory open.
struct Hold {
  c10::Storage storage;
  Opening opening;
};

void delete_hold(void* context) {
  delete static_cast<Hold*>(context);
}

// A tensor of `storage` on the other side of the border, in everything else like `like`.
at::Tensor tensor_over(c10::Storage storage, c10::DispatchKey key, const at::Tensor& like) {
  auto keys = c10::DispatchKeySet(key);
  if (like._is_zerotensor()) {
    keys = keys.add(c10::DispatchKey::ZeroTensor);  // no memory, on either side
  }
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, like.dtype());
  auto* impl = tensor.unsafeGetTensorImpl();
  const auto* source = like.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(source->sizes(), source->strides(), source->storage_offset());
  if (source->is_conj()) {
    impl->_set_conj(true);
  }
  if (source->is_neg()) {
    impl->_set_neg(true);
  }
  if (source->is_wrapped_number()) {
    impl->set_wrapped_number(true);
  }
  return tensor;
}

}  // namespace

c10::Storage host_storage_over(const c10::Storage& device_storage, bool keep_alive) {
  // Not mutable_data(): that would end the sharing of memory that is only read.
  void* address = device_storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().mutable_get();
  c10::DataPtr pointer = keep_alive || protecting()
      ? c10::DataPtr(address, new Hold{keep_alive ? device_storage : c10::Storage(), Opening(address)}, &delete_hold,
                     c10::Device(c10::kCPU))
      : c10::DataPtr(address, c10::Device(c10::kCPU));
  // Resizable, by the host's allocator: a kernel that resizes its out= argument gets fresh host memory, which
  // the device then takes over.
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), device_storage.nbytes(), std::move(pointer), c10::GetCPUAllocator(),
      /*resizable=*/true));
}

at::Tensor alias_on_host(const at::Tensor& tensor, c10::Storage host_storage) {
  return tensor_over(std::move(host_storage), c10::DispatchKey::CPU, tensor);
}

c10::Storage adopt_storage(c10::Storage host_storage, c10::Device device) {
  const size_t bytes = host_storage.nbytes();
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes, adopt_memory(std::move(host_storage), device), device_allocator(),
      /*resizable=*/true));
}

at::Tensor device_tensor(c10::Storage storage, const at::Tensor& like) {
  return tensor_over(std::move(storage), c10::DispatchKey::PrivateUse1, like);
}

at::Tensor geometry_of(const at::Tensor& tensor) {
  c10::Storage nothing(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), 0, c10::DataPtr(nullptr, c10::Device(c10::kMeta)), nullptr,
      /*resizable=*/false));
  return tensor_over(std::move(nothing), c10::DispatchKey::Meta, tensor);
}

c10::Storage new_storage(size_t bytes, c10::Device device) {
  const c10::DeviceGuard guard(device);
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                            device_allocator()->allocate(bytes), device_allocator(),
                                                            /*resizable=*/true));
}

at::Tensor adopt_from_host(const at::Tensor& host, c10::Device device) {
  TORCH_CHECK(host.layout() == c10::kStrided && host.device().is_cpu(),
              "only a dense host tensor can become a neuron tensor, got one on ", host.device(), " of layout ",
              host.layout());
  check_can_be_on_device(host);
  return device_tensor(adopt_storage(host.storage(), device), host);
}

void own_memory(const at::Tensor& tensor) {
  if (tensor.has_storage()) {
    tensor.storage().mutable_data();
  }
}

void write_over(const at::Tensor& target, const at::Tensor& source) {
  at::Tensor to = target, from = source;
  for (int64_t dim = 0; dim < target.dim(); ++dim) {
    if (target.stride(dim) == 0 && target.size(dim) > 1) {
      to = to.narrow(dim, 0, 1);
      from = from.narrow(dim, 0, 1);
    }
  }
  to.copy_(from);
}

void resize_storage(c10::StorageImpl& storage, size_t bytes) {
  TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
  queue::finish(storage.device().index());  // what is queued may use the old memory
  c10::DataPtr fresh;
  {
    const c10::DeviceGuard guard(storage.device());
    fresh = device_allocator()->allocate(bytes);
  }
  const size_t kept = std::min(bytes, storage.nbytes());
  if (kept > 0) {
    device_allocator()->copy_data(fresh.get(), storage.data(), kept);
  }
  storage.set_data_ptr_noswap(std::move(fresh));
  storage.clear_materializer();  // the new memory is shared with no one
  storage.set_nbytes(bytes);
}

}  // namespace neuron
