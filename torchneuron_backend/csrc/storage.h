#pragma once

// The border between host and device memory: the same bytes seen as a host tensor or as a device tensor.

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/util/SmallVector.h>

namespace neuron {

// A host tensor over the memory of `tensor` (dense, on neuron): same bytes, sizes, strides, offset and math bits.
// It does not keep the memory alive: it must not outlive `tensor`, which is why only kernels use this form.
at::Tensor alias_on_host(const at::Tensor& tensor, c10::Storage host_storage);

// A host storage over the memory of a device storage; with `keep_alive`, it holds the device storage. In protect
// mode the memory is open as long as the host storage lives. Memory that is to be written has to be the storage's own
// by then: see `own_memory`.
c10::Storage host_storage_over(const c10::Storage& device_storage, bool keep_alive);

// A device tensor over the memory of `host`, a dense host tensor whose memory the device takes over (copies, in
// protect mode).
at::Tensor adopt_from_host(const at::Tensor& host, c10::Device device);

// A device storage that has taken over the memory of a host storage, or in protect mode a copy of it.
c10::Storage adopt_storage(c10::Storage host_storage, c10::Device device);

// A device tensor of `storage` with the geometry (dtype, sizes, strides, offset) of `like`.
at::Tensor device_tensor(c10::Storage storage, const at::Tensor& like);

// A tensor on meta with that geometry: what `device_tensor` needs, without the memory.
at::Tensor geometry_of(const at::Tensor& tensor);

// New memory of `device`.
c10::Storage new_storage(size_t bytes, c10::Device device);

// Gives a device tensor that is to be written memory of its own, if it shares it with a lazy clone.
void own_memory(const at::Tensor& tensor);

// Copies `source` into `target`, of the same sizes. Where `target` has one number in many places (expanded), it is
// written once; torch's copy refuses that.
void write_over(const at::Tensor& target, const at::Tensor& source);

// Grows or shrinks a device storage, keeping the bytes that fit.
void resize_storage(c10::StorageImpl& storage, size_t bytes);

}  // namespace neuron
