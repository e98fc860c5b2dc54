#include "boxed.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>

#include "allocator.h"
#include "device.h"
#include "engine.h"
#include "faults.h"
#include "generator.h"
#include "positions.h"
#include "profiler.h"
#include "queue.h"
#include "refusals.h"
#include "storage.h"
#include "streams.h"
#include "tensor_lists.h"

namespace neuron {
namespace {

using c10::IValue;
using Type = ArgumentPlan::Type;

bool on_neuron(const at::Tensor& tensor) {
  return tensor.device().type() == kNeuron;
}

// What the chip computes in, for the dtypes it stores but does not compute in.
std::optional<c10::ScalarType> narrower_than(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Long:
      return c10::ScalarType::Int;
    case c10::ScalarType::UInt64:
      return c10::ScalarType::UInt32;
    case c10::ScalarType::Double:
      return c10::ScalarType::Float;
    case c10::ScalarType::ComplexDouble:
      return c10::ScalarType::ComplexFloat;
    default:
      return std::nullopt;
  }
}

// Leaves in 64 bits what 32 can hold: integers wrap around, floats round.
void round_to_32_bits(const at::Tensor& host) {
  if (const auto narrow = narrower_than(host.scalar_type())) {
    write_over(host, host.to(*narrow));
  }
}

std::atomic<bool> in_32_bits{false};

// One call of one operator: its arguments carried to the host, and its results carried back.
class HostCall {
 public:
  HostCall(OpPlan& plan, torch::jit::Stack& stack)
      : plan_(plan), stack_(stack), first_(stack.size() - plan.argument_count) {
    look_at_arguments();
  }

  // Where the results belong; none when nothing about the call names a device.
  std::optional<c10::Device> device() const { return device_; }
  // The dtype of the first tensor argument; none for a factory.
  std::optional<c10::ScalarType> dtype() const { return dtype_; }
  uint64_t bytes_moved() const { return bytes_moved_; }
  void copy_instead_of_aliasing() { copying_ = true; }
  void compute_in_32_bits() { narrow_ = true; }

  // Before anything is queued: a copy waits for the queue.
  void own_what_is_written() const {
    for (const auto& argument : plan_.arguments) {
      if (!argument.written) {
        continue;
      }
      const IValue& value = stack_[first_ + argument.index];
      if (value.isTensor()) {
        own_if_on_neuron(value.toTensor());
      } else if (is_tensor_list(value)) {
        for (const IValue& item : value.toListRef()) {
          own_if_on_neuron(item.toTensor());
        }
      }
    }
  }

  void carry_arguments_to_host() {
    if (copying_) {
      find_overlapping_storages();
    }
    saved_.reserve(plan_.arguments.size());
    for (const auto& argument : plan_.arguments) {
      IValue& value = stack_[first_ + argument.index];
      saved_.push_back(argument.written ? value : IValue());
      carry(argument, value);
    }
  }

  void carry_results_back() {
    for (auto& moved : moved_) {
      if (moved.written) {
        if (narrow_ && !copying_) {
          round_to_32_bits(moved.host);
        }
        copying_ ? write_back(moved) : take_over_changes(moved);
      }
    }
    const size_t first_result = stack_.size() - plan_.results.size();
    for (size_t i = 0; i < plan_.results.size(); ++i) {
      IValue& value = stack_[first_result + i];
      if (plan_.results[i].argument >= 0) {
        value = saved_[static_cast<size_t>(plan_.results[i].argument)];
      } else {
        carry_result(value);
      }
    }
  }

  // A queued call: new results go into `promised`, one after the other, and nothing else may have changed its shape.
  void keep_promises(const std::vector<at::Tensor>& promised) {
    for (const auto& moved : moved_) {
      if (moved.written) {
        TORCH_CHECK(moved.host.sizes() == moved.device.sizes() && moved.host.strides() == moved.device.strides() &&
                        moved.host.storage().data() == moved.device.storage().data(),
                    "it resized an argument, which it did not do the first time");
        if (narrow_) {
          round_to_32_bits(moved.host);
        }
      }
    }
    size_t next = 0;
    const size_t first_result = stack_.size() - plan_.results.size();
    for (size_t i = 0; i < plan_.results.size(); ++i) {
      const IValue& value = stack_[first_result + i];
      if (plan_.results[i].argument >= 0) {
        continue;
      }
      if (value.isTensor()) {
        keep_promise(value.toTensor(), promised.at(next++));
      } else {
        for (const IValue& item : value.toListRef()) {
          keep_promise(item.toTensor(), promised.at(next++));
        }
      }
    }
  }

  // For a factory, known only once it has run.
  c10::ScalarType result_dtype() const {
    for (size_t i = stack_.size() - plan_.results.size(); i < stack_.size(); ++i) {
      if (stack_[i].isTensor() && stack_[i].toTensor().defined()) {
        return stack_[i].toTensor().scalar_type();
      }
    }
    return c10::ScalarType::Undefined;
  }

 private:
  struct Moved {
    at::Tensor device;
    at::Tensor host;
    bool written;
  };

  // One storage, as the device and as the host knows it.
  struct Sides {
    c10::Storage device;
    c10::Storage host;
  };

  static void own_if_on_neuron(const at::Tensor& tensor) {
    if (tensor.defined() && on_neuron(tensor)) {
      own_memory(tensor);
    }
  }

  void look_at_arguments() {
    std::optional<c10::Device> asked_for;
    for (const auto& argument : plan_.arguments) {
      const IValue& value = stack_[first_ + argument.index];
      if (value.isTensor()) {
        look_at(value.toTensor(), argument);
      } else if (is_tensor_list(value)) {
        for (const IValue& item : value.toListRef()) {
          if (item.isTensor()) {
            look_at(item.toTensor(), argument);
          }
        }
      } else if (argument.type == Type::Device && value.isDevice()) {
        asked_for = value.toDevice();
        if (asked_for->type() == kNeuron) {
          asked_for = c10::Device(kNeuron, checked_index(asked_for->index()));
        }
      }
    }
    core_ = device_;
    if (asked_for.has_value()) {
      device_ = asked_for;
    }
  }

  void look_at(const at::Tensor& tensor, const ArgumentPlan& argument) {
    if (!tensor.defined()) {
      return;
    }
    if (!dtype_.has_value()) {
      dtype_ = tensor.scalar_type();
    }
    if (on_neuron(tensor)) {
      if (!device_.has_value()) {
        device_ = tensor.device();
      }
      if (tensor.device() != *device_) {
        wrong_device(tensor, argument);
      }
    } else if (!argument.may_be_on_host && (argument.written || tensor.dim() != 0) && !tensor.is_meta()) {
      wrong_device(tensor, argument);
    }
  }

  // Indices of a tensor go where it goes, or on the host; torch has a sentence of its own for those that do not.
  void check_indices() const {
    const auto& self = plan_.arguments.front();
    for (const auto& argument : plan_.arguments) {
      const IValue& value = stack_[first_ + argument.index];
      if (argument.name != "indices" || !is_list_with_gaps(value)) {
        continue;
      }
      const c10::Device indexed = stack_[first_ + self.index].toTensor().device();
      for (const IValue& item : value.toListRef()) {
        const at::Tensor index = item.isTensor() ? item.toTensor() : at::Tensor();  // undefined, or none: a slice
        TORCH_CHECK(!index.defined() || index.is_cpu() || index.device() == indexed,
                    "indices should be either on cpu or on the same device as the indexed tensor (", indexed, ")");
      }
    }
  }

  [[noreturn]] void wrong_device(const at::Tensor& tensor, const ArgumentPlan& argument) const {
    check_indices();
    const c10::Device here = device_.value_or(c10::Device(kNeuron, current_device()));
    TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", here, " and ",
                tensor.device(), "! (when checking argument for argument ", argument.name, " in method ",
                plan_.record.name, ")");
  }

  void carry(const ArgumentPlan& argument, IValue& value) {
    switch (argument.type) {
      case Type::Tensor:
        if (value.isTensor() && value.toTensor().defined()) {
          value = to_host(value.toTensor(), argument.written);
        }
        return;
      case Type::TensorList:
        if (is_tensor_list(value) && !is_list_with_gaps(value)) {
          c10::List<at::Tensor> hosts;
          hosts.reserve(value.toListRef().size());
          for (const IValue& item : value.toListRef()) {
            hosts.push_back(to_host(item.toTensor(), argument.written));
          }
          value = std::move(hosts);
        } else if (is_list_with_gaps(value)) {
          c10::List<std::optional<at::Tensor>> hosts;
          for (const IValue& item : value.toListRef()) {
            hosts.push_back(item.isTensor() ? std::optional(to_host(item.toTensor(), argument.written)) : std::nullopt);
          }
          value = std::move(hosts);
        }
        return;
      case Type::Device:
        if (value.isDevice()) {
          value = c10::Device(c10::kCPU);
        }
        return;
      case Type::Generator:
        carry_generator(value);
        return;
    }
  }

  void carry_generator(IValue& value) {
    if (value.isNone()) {
      value = host_generator(default_generator(core().index()));
      return;
    }
    const c10::Device device = value.toGenerator().device();
    TORCH_CHECK(device.type() == kNeuron, "Expected a 'neuron' device type for generator but found '", device.type(),
                "'");
    value = host_generator(value.toGenerator());
  }

  c10::Device core() const { return core_.value_or(device_.value_or(c10::Device(kNeuron, current_device()))); }

  at::Tensor to_host(const at::Tensor& tensor, bool written) {
    if (!tensor.defined() || !on_neuron(tensor)) {
      return tensor;
    }
    if (const auto seen = seen_.find(tensor.unsafeGetTensorImpl())) {
      moved_[*seen].written |= written;
      return moved_[*seen].host;
    }
    at::Tensor host = copying_ ? copied(tensor) : alias_on_host(tensor, host_storage_of(tensor));
    if (narrow_ && !copying_ && narrower_than(host.scalar_type()).has_value()) {
      if (!written && !is_written(tensor)) {
        host = cloned(host);  // the caller's own bits stay as they are
      }
      round_to_32_bits(host);
    }
    seen_.insert(tensor.unsafeGetTensorImpl(), moved_.size());
    moved_.push_back({tensor, host, written});
    return host;
  }

  // Tensors that share a storage on the device share one on the host, so overlap checks see what they should.
  const c10::Storage& host_storage_of(const at::Tensor& tensor) {
    const c10::Storage& storage = tensor.storage();
    if (const auto at = by_device_storage_.find(storage.unsafeGetStorageImpl())) {
      return storages_[*at].host;
    }
    remember(storage, host_storage_over(storage, /*keep_alive=*/false));
    return storages_.back().host;
  }

  // Fallback. The device memory is open no longer than it takes to copy it.
  at::Tensor copied(const at::Tensor& tensor) {
    const c10::Storage& storage = tensor.storage();
    const bool overlaps = !overlapping_.empty() &&
        std::ranges::find(overlapping_, storage.unsafeGetStorageImpl()) != overlapping_.end();
    if (overlaps || plan_.addresses_memory) {
      return alias_on_host(tensor, copied_storage_of(storage));
    }
    bytes_moved_ += tensor.numel() * tensor.itemsize();
    return cloned(alias_on_host(tensor, host_storage_over(storage, /*keep_alive=*/false)));
  }

  const c10::Storage& copied_storage_of(const c10::Storage& storage) {
    if (const auto at = by_device_storage_.find(storage.unsafeGetStorageImpl())) {
      return storages_[*at].host;
    }
    c10::Storage copy(c10::Storage::use_byte_size_t(), storage.nbytes(), c10::GetCPUAllocator(), /*resizable=*/true);
    device_allocator()->copy_data(copy.mutable_data(), storage.data(), storage.nbytes());
    bytes_moved_ += storage.nbytes();
    remember(storage, std::move(copy));
    return storages_.back().host;
  }

  // Fallback: storages of which one argument is written and another sees a part, or in which the written one has a
  // number in many places: the host kernel may have to find that overlap, to refuse it. They are copied whole, once,
  // instead of argument by argument.
  void find_overlapping_storages() {
    struct Use {
      const c10::StorageImpl* storage;
      const c10::TensorImpl* tensor;
      bool written;
      bool overlaps_itself;
    };
    c10::SmallVector<Use, 12> uses;
    bool any_written = false;
    const auto use = [&](const at::Tensor& tensor, bool written) {
      if (tensor.defined() && on_neuron(tensor) && tensor.storage().data() != nullptr) {
        const bool overlaps_itself = written && at::has_internal_overlap(tensor) == at::MemOverlap::Yes;
        uses.push_back({tensor.storage().unsafeGetStorageImpl(), tensor.unsafeGetTensorImpl(), written, overlaps_itself});
        any_written |= written;
      }
    };
    for (const auto& argument : plan_.arguments) {
      const IValue& value = stack_[first_ + argument.index];
      if (value.isTensor()) {
        use(value.toTensor(), argument.written);
      } else if (is_tensor_list(value)) {
        for (const IValue& item : value.toListRef()) {
          if (item.isTensor()) {
            use(item.toTensor(), argument.written);
          }
        }
      }
    }
    if (!any_written) {
      return;
    }
    std::ranges::sort(uses, std::less<>(), &Use::storage);
    for (size_t begin = 0, end = 0; begin < uses.size(); begin = end) {
      bool written = false, distinct = false, overlaps_itself = false;
      for (end = begin; end < uses.size() && uses[end].storage == uses[begin].storage; ++end) {
        written |= uses[end].written;
        distinct |= uses[end].tensor != uses[begin].tensor;
        overlaps_itself |= uses[end].overlaps_itself;
      }
      if ((written && distinct) || overlaps_itself) {
        overlapping_.push_back(uses[begin].storage);
      }
    }
  }

  static at::Tensor cloned(const at::Tensor& alias) {
    at::Tensor copy = alias.clone(at::MemoryFormat::Preserve);
    if (alias.unsafeGetTensorImpl()->is_wrapped_number()) {
      copy.unsafeGetTensorImpl()->set_wrapped_number(true);
    }
    return copy;
  }

  // Fallback: what the host kernel wrote goes back into device memory.
  void write_back(Moved& moved) {
    bytes_moved_ += moved.host.numel() * moved.host.itemsize();
    if (moved.device.sizes() != moved.host.sizes()) {
      moved.device.resize_(moved.host.sizes());
    }
    write_over(alias_on_host(moved.device, host_storage_over(moved.device.storage(), false)), moved.host);
  }

  // Native: the bytes are already in place; a kernel that resized its argument left new geometry or memory.
  void take_over_changes(Moved& moved) {
    auto* device = moved.device.unsafeGetTensorImpl();
    auto* host = moved.host.unsafeGetTensorImpl();
    const c10::Storage& host_storage = host->unsafe_storage();
    if (!is_alias_of_an_argument(host_storage)) {
      device->set_storage_keep_dtype(adopted(host_storage));
    } else if (host_storage.data() != device->unsafe_storage().data()) {
      queue::finish(moved.device.device().index());  // what is queued may use the old memory
      auto* storage = device->unsafe_storage().unsafeGetStorageImpl();
      storage->set_data_ptr_noswap(adopt_memory(host_storage, moved.device.device()));
      storage->set_nbytes(host_storage.nbytes());
    }
    if (device->sizes() != host->sizes() || device->strides() != host->strides() ||
        device->storage_offset() != host->storage_offset()) {
      device->set_sizes_and_strides(host->sizes(), host->strides(), host->storage_offset());
    }
  }

  bool is_alias_of_an_argument(const c10::Storage& host_storage) const {
    return by_host_storage_.find(host_storage.unsafeGetStorageImpl()).has_value();
  }

  void carry_result(IValue& value) {
    if (!device_.has_value() || device_->type() != kNeuron) {
      return;
    }
    if (value.isTensor()) {
      value = to_device(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> tensors;
      for (const IValue& item : value.toListRef()) {
        tensors.push_back(to_device(item.toTensor()));
      }
      value = std::move(tensors);
    }
  }

  at::Tensor to_device(const at::Tensor& host) {
    if (!host.defined() || !host.device().is_cpu()) {
      return host;
    }
    for (size_t i = 0; i < std::min<size_t>(moved_.size(), 8); ++i) {
      if (moved_[i].host.is_same(host)) {
        return moved_[i].device;
      }
    }
    check_can_be_on_device(host);
    if (copying_) {
      return copied_to_device(host);
    }
    if (narrow_) {
      round_to_32_bits(host);
    }
    return device_tensor(adopted(host.storage()), host);
  }

  // Whether some argument that the call writes is this very tensor.
  bool is_written(const at::Tensor& tensor) const {
    const auto same = [&](const IValue& value) { return value.isTensor() && value.toTensor().is_same(tensor); };
    for (const auto& argument : plan_.arguments) {
      if (!argument.written) {
        continue;
      }
      // An argument carried already is a host tensor by now; to_host() has seen it as written.
      const IValue& value = stack_[first_ + argument.index];
      if (same(value) || (is_tensor_list(value) && std::ranges::any_of(value.toListRef(), same))) {
        return true;
      }
    }
    return false;
  }

  void keep_promise(const at::Tensor& host, const at::Tensor& device) const {
    TORCH_CHECK(host.defined() == device.defined() &&
                    (!host.defined() || (host.sizes() == device.sizes() && host.scalar_type() == device.scalar_type())),
                "its result has another shape or dtype than the first time with such arguments");
    if (!host.defined()) {
      return;
    }
    if (narrow_) {
      round_to_32_bits(host);
    }
    const at::Tensor target = alias_on_host(device, host_storage_over(device.storage(), false));
    const bool same_layout = host.strides() == target.strides() && host.storage_offset() == target.storage_offset() &&
        host.storage().nbytes() == target.storage().nbytes() && host.is_conj() == target.is_conj() &&
        host.is_neg() == target.is_neg();
    if (!same_layout) {
      target.copy_(host);
    } else if (host.storage().nbytes() > 0) {
      std::memcpy(target.storage().mutable_data(), host.storage().data(), host.storage().nbytes());
    }
  }

  at::Tensor copied_to_device(const at::Tensor& host) {
    bytes_moved_ += host.numel() * host.itemsize();
    const at::Tensor copy = host.clone(at::MemoryFormat::Preserve);
    return device_tensor(adopted(copy.storage()), copy);
  }

  // The device storage for a host storage: the argument's own when the result is a view of one.
  c10::Storage adopted(const c10::Storage& host_storage) {
    if (const auto at = by_host_storage_.find(host_storage.unsafeGetStorageImpl())) {
      return storages_[*at].device;
    }
    remember(adopt_storage(host_storage, *device_), host_storage);
    return storages_.back().device;
  }

  void remember(c10::Storage device, c10::Storage host) {
    by_device_storage_.insert(device.unsafeGetStorageImpl(), storages_.size());
    by_host_storage_.insert(host.unsafeGetStorageImpl(), storages_.size());
    storages_.push_back({std::move(device), std::move(host)});
  }

  OpPlan& plan_;
  torch::jit::Stack& stack_;
  const size_t first_;
  bool copying_ = false;
  bool narrow_ = false;
  std::optional<c10::Device> device_;
  std::optional<c10::Device> core_;
  std::optional<c10::ScalarType> dtype_;
  uint64_t bytes_moved_ = 0;
  c10::SmallVector<IValue, 8> saved_;
  c10::SmallVector<Moved, 6> moved_;
  c10::SmallVector<Sides, 6> storages_;
  c10::SmallVector<const c10::StorageImpl*, 2> overlapping_;
  Positions seen_;  // of a device TensorImpl in moved_
  Positions by_device_storage_, by_host_storage_;  // of a StorageImpl in storages_
};

void check_can_run(const OpPlan& plan, const c10::OperatorHandle& op) {
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU), "Could not run '",
                              plan.record.name, "' on neuron: it has no native lowering, and no CPU kernel to fall back to.");
  TORCH_CHECK_NOT_IMPLEMENTED(!plan.returns_view, "The operator ", plan.record.name,
                              " appears to be a view operator, but it has no implementation for the backend \"neuron\": "
                              "a view cannot share memory with its base across a fallback to the CPU.");
}

void boxed_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  run_boxed(plan_for(op), op, stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&boxed_fallback>());
}

}  // namespace

void compute_64_bits_in_32(bool on) {
  in_32_bits.store(on);
}

bool computes_64_bits_in_32() {
  return in_32_bits.load();
}

void run_boxed(OpPlan& plan, const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  KernelScope scope(plan.record);
  HostCall call(plan, *stack);
  use_device();
  call.own_what_is_written();
  at::AutoDispatchBelowADInplaceOrView below;
  const auto dtype = call.dtype();
  bool native = !dtype.has_value() || plan.is_native(*dtype, *stack);
  const c10::DeviceIndex core = call.device().has_value() && call.device()->type() == kNeuron
      ? call.device()->index() : current_device();
  const auto fault = faults::strike(plan.record);
  std::optional<Launch> launch;
  if (queue::active()) {
    if (native && queue::asynchronous() && !engine::is_compiled()) {
      launch.emplace(plan, op, *stack, core);
    }
    if (launch.has_value() && launch->try_to_queue(fault)) {
      return;
    }
    queue::synchronize(current_stream(core));
    scope.restart();
  }
  faults::act_out(fault, plan.record, core);
  engine::Program program;  // none: the host kernel
  if (native && fault != faults::Fault::SilentFallback && engine::is_compiled()) {
    program = engine::program_for(plan, op, *stack);
    native = static_cast<bool>(program);
  }
  const bool on_copies = !native || fault == faults::Fault::SilentFallback;
  if (!native) {
    check_can_run(plan, op);
  }
  if (!on_copies && in_32_bits.load(std::memory_order_relaxed)) {
    call.compute_in_32_bits();
  }
  if (on_copies) {
    call.copy_instead_of_aliasing();
  }
  if (on_copies) {
    const FallbackMark mark;
    call.carry_arguments_to_host();
  } else {
    call.carry_arguments_to_host();
  }
  const DeviceActivity activity(plan.record.name, core);
  if (program) {
    program.run(plan, *stack, core);
  } else {
    std::optional<BorrowHostStream> stream;
    if (plan.draws_from_default) {
      stream.emplace(core);
    }
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  }
  const auto counted = dtype.value_or(call.result_dtype());
  if (native && !dtype.has_value() && counted != c10::ScalarType::Undefined && !plan.is_native(counted)) {
    native = false;  // a factory: the host made the result, and it is brought over
    const FallbackMark mark;
    call.copy_instead_of_aliasing();
  } else if (!on_copies) {
    activity.finish();
  }
  call.carry_results_back();
  scope.finish(counted, native ? Route::Native : Route::Fallback, call.bytes_moved());
  if (launch.has_value() && native) {
    launch->learn(counted);
  }
  if (fault == faults::Fault::LateError) {
    faults::leave_late_error(plan.record);
  } else if (fault != faults::Fault::None) {
    faults::spoil(fault, plan.record, plan.results.size(), *stack);
  }
}

void run_queued(OpPlan& plan, const c10::OperatorHandle& op, torch::jit::Stack& stack, bool in_32_bits,
                const std::vector<at::Tensor>& results) {
  HostCall call(plan, stack);
  if (in_32_bits) {
    call.compute_in_32_bits();
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  call.carry_arguments_to_host();
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
  call.keep_promises(results);
}

}  // namespace neuron
