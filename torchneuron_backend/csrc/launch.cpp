#include "launch.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/hash.h>

#include <algorithm>
#include <bit>
#include <mutex>
#include <utility>

#include "allocator.h"
#include "boxed.h"
#include "device.h"
#include "positions.h"
#include "profiler.h"
#include "queue.h"
#include "storage.h"
#include "streams.h"
#include "tensor_lists.h"

namespace neuron {
namespace {

using c10::DispatchKey;
using c10::IValue;
using c10::TypeKind;

constexpr size_t kMostKinds = 4096;  // of one operator; then all are learnt anew

bool on_neuron(const at::Tensor& tensor) {
  return tensor.device().type() == kNeuron;
}

template <typename Function>
void for_each_tensor(const IValue& value, Function function) {
  if (value.isTensor()) {
    function(value.toTensor());
  } else if (is_tensor_list(value)) {
    for (const IValue& item : value.toListRef()) {
      function(item.isTensor() ? item.toTensor() : at::Tensor());
    }
  }
}

// A number whose value no shape depends on, in a call that takes tensors: it scales, shifts or fills.
bool is_value_only(const c10::Argument& argument) {
  auto type = argument.type();
  if (auto optional = type->cast<c10::OptionalType>()) {
    type = optional->getElementType();
  }
  if (auto list = type->cast<c10::ListType>()) {
    return list->getElementType()->kind() == TypeKind::NumberType;
  }
  return type->kind() == TypeKind::NumberType || type->kind() == TypeKind::FloatType;
}

// Writes arguments down as numbers. `good` turns false at one that cannot be.
class Describer {
 public:
  explicit Describer(Signature& words) : words_(words) {}

  bool good() const { return good_; }

  void tensor(const at::Tensor& tensor) {
    if (!tensor.defined()) {
      words_.push_back(-1);
      return;
    }
    const auto* impl = tensor.unsafeGetTensorImpl();
    good_ &= tensor.layout() == c10::kStrided && (on_neuron(tensor) || tensor.is_cpu()) && tensor.has_storage();
    if (!good_) {
      return;
    }
    words_.push_back((static_cast<int64_t>(tensor.scalar_type()) << 32) | (tensor.dim() << 8) |
                     (on_neuron(tensor) ? 1 : 0) | (impl->is_wrapped_number() ? 2 : 0) | (tensor.is_conj() ? 4 : 0) |
                     (tensor.is_neg() ? 8 : 0));
    words_.insert(words_.end(), tensor.sizes().begin(), tensor.sizes().end());
    words_.insert(words_.end(), tensor.strides().begin(), tensor.strides().end());
    if (const auto earlier = storages_.find(impl->unsafe_storage().unsafeGetStorageImpl())) {
      words_.push_back(static_cast<int64_t>(*earlier));  // the same memory as that one's
      words_.push_back(tensor.storage_offset());
    } else {
      storages_.insert(impl->unsafe_storage().unsafeGetStorageImpl(), seen_);
    }
    ++seen_;
  }

  void value(const IValue& value, bool by_kind_only) {
    words_.push_back(kind_of(value));
    if (value.isNone() || !good_) {
      return;
    }
    if (value.isIntList()) {
      const auto numbers = value.toIntVector();
      words_.push_back(static_cast<int64_t>(numbers.size()));
      words_.insert(words_.end(), numbers.begin(), numbers.end());
    } else if (value.isList()) {
      words_.push_back(static_cast<int64_t>(value.toListRef().size()));
      for (const IValue& item : value.toListRef()) {
        this->value(item, by_kind_only);
      }
    } else if (!by_kind_only) {
      number(value);
    }
  }

 private:
  int64_t kind_of(const IValue& value) {
    if (value.isNone()) return 0;
    if (value.isInt()) return 1;
    if (value.isDouble()) return 2;
    if (value.isBool()) return 3;
    if (value.isComplexDouble()) return 4;
    if (value.isString()) return 5;
    if (value.isDevice()) return 6;
    if (value.isIntList()) return 7;
    if (value.isDoubleList() || value.isBoolList()) return 8;
    if (value.isList()) return 9;
    good_ = false;
    return -1;
  }

  void number(const IValue& value) {
    if (value.isInt()) {
      words_.push_back(value.toInt());
    } else if (value.isBool()) {
      words_.push_back(value.toBool() ? 1 : 0);
    } else if (value.isDouble()) {
      words_.push_back(std::bit_cast<int64_t>(value.toDouble()));
    } else if (value.isComplexDouble()) {
      const auto both = value.toComplexDouble();
      words_.push_back(std::bit_cast<int64_t>(both.real()));
      words_.push_back(std::bit_cast<int64_t>(both.imag()));
    } else if (value.isString()) {
      const auto text = value.toStringView();
      words_.push_back(static_cast<int64_t>(text.size()));
      words_.insert(words_.end(), text.begin(), text.end());
    } else if (value.isDevice()) {
      words_.push_back((static_cast<int64_t>(value.toDevice().type()) << 8) | (value.toDevice().index() & 0xff));
    }
  }

  Signature& words_;
  Positions storages_;
  size_t seen_ = 0;
  bool good_ = true;
};

// What of the launching thread's state a host kernel may see, to be had in the queue's thread as well. Neither
// dispatch modes nor transforms nor profilers: those have seen the call already.
class Surroundings {
 public:
  Surroundings()
      : keys_(c10::impl::tls_local_dispatch_key_set()),
        autograd_(c10::AutogradState::get_tls_state()),
        threads_(at::get_num_threads()) {
    const c10::DispatchKeySet modes{DispatchKey::Python, DispatchKey::PythonTLSSnapshot,
                                    DispatchKey::PythonDispatcher,
                                    DispatchKey::FuncTorchDynamicLayerFrontMode,
                                    DispatchKey::FuncTorchDynamicLayerBackMode};
    keys_.included_ = keys_.included_ - modes;
    keys_.excluded_ = keys_.excluded_ | modes;
  }

  template <typename Function>
  void run(Function function) const {
    const c10::impl::ForceDispatchKeyGuard keys(keys_);
    const Autograd autograd(autograd_);
    if (at::get_num_threads() != threads_) {
      at::set_num_threads(threads_);  // sums are split among threads, so their number is seen in the last bits
    }
    function();
  }

 private:
  struct Autograd {
    explicit Autograd(const c10::AutogradState& wanted) : saved(c10::AutogradState::get_tls_state()) {
      c10::AutogradState::set_tls_state(wanted);
    }
    ~Autograd() { c10::AutogradState::set_tls_state(saved); }
    const c10::AutogradState saved;
  };

  c10::impl::LocalDispatchKeySet keys_;
  c10::AutogradState autograd_;
  int threads_;
};

// An argument as it is now: what the host does to its shape, or to a number it holds, comes too late. The bytes of
// device memory stay where they are and alive.
at::Tensor as_of_now(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    return tensor;
  }
  if (on_neuron(tensor)) {
    return device_tensor(tensor.storage(), tensor);
  }
  at::Tensor copy = tensor.clone(at::MemoryFormat::Preserve);
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    copy.unsafeGetTensorImpl()->set_wrapped_number(true);
  }
  return copy;
}

IValue as_of_now(const IValue& value) {
  if (value.isTensor()) {
    return as_of_now(value.toTensor());
  }
  if (is_tensor_list(value) && !is_list_with_gaps(value)) {
    c10::List<at::Tensor> tensors;
    for (const IValue& item : value.toListRef()) {
      tensors.push_back(as_of_now(item.toTensor()));
    }
    return tensors;
  }
  if (is_list_with_gaps(value)) {
    c10::List<std::optional<at::Tensor>> tensors;
    for (const IValue& item : value.toListRef()) {
      tensors.push_back(item.isTensor() ? std::optional(as_of_now(item.toTensor())) : std::nullopt);
    }
    return tensors;
  }
  return value;
}

// Tensors of the promised geometry, twice over the same memory: for the caller, who may reshape them, and for the
// kernel.
struct Results {
  std::vector<IValue> given;
  std::vector<at::Tensor> kept;
};

Results make_results(const Promise& promise, const torch::jit::Stack& stack, size_t first, c10::Device device) {
  std::vector<c10::Storage> storages;
  for (const size_t bytes : promise.storage_bytes) {
    storages.push_back(new_storage(bytes, device));
  }
  Results results;
  const auto make = [&](const Promise::Slot& slot) {
    if (!slot.like.defined()) {
      results.kept.emplace_back();
      return at::Tensor();
    }
    results.kept.push_back(device_tensor(storages[slot.storage], slot.like));
    return device_tensor(storages[slot.storage], slot.like);
  };
  for (const auto& result : promise.results) {
    if (result.argument >= 0) {
      results.given.push_back(stack[first + static_cast<size_t>(result.argument)]);
    } else if (result.list) {
      c10::List<at::Tensor> tensors;
      for (const auto& slot : result.slots) {
        tensors.push_back(make(slot));
      }
      results.given.emplace_back(std::move(tensors));
    } else {
      results.given.emplace_back(make(result.slots.front()));
    }
  }
  return results;
}

bool can_come_late(faults::Fault fault) {
  using faults::Fault;
  return fault == Fault::None || fault == Fault::Crash || fault == Fault::Abort || fault == Fault::Hang ||
      fault == Fault::Error || fault == Fault::LateError;
}

}  // namespace

size_t SignatureHash::operator()(const Signature& words) const noexcept {
  size_t seed = words.size();
  for (const int64_t word : words) {
    seed = c10::hash_combine(seed, static_cast<size_t>(word));
  }
  return seed;
}

std::shared_ptr<const Promise> LaunchTable::find(const Signature& signature) const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  const auto found = promises_.find(signature);
  return found == promises_.end() ? nullptr : found->second;
}

void LaunchTable::insert(Signature signature, Promise promise) {
  auto made = std::make_shared<const Promise>(std::move(promise));
  std::unique_lock<std::shared_mutex> lock(mutex_);
  if (promises_.size() >= kMostKinds) {
    promises_.clear();
  }
  promises_.insert_or_assign(std::move(signature), std::move(made));
}

Launch::Launch(OpPlan& plan, const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::DeviceIndex device)
    : plan_(plan), op_(op), stack_(stack), first_(stack.size() - plan.argument_count), device_(device) {
  describable_ = can_be_known() && describe_arguments();
  if (describable_) {
    promise_ = plan_.launches.find(signature_);
    if (promise_ == nullptr) {
      watch_what_is_written();
    }
  }
}

// Random numbers are drawn in the order of the host's calls, so such a call is waited for. Shapes that depend on the
// data cannot be known; an index has such a shape only where it is a mask.
bool Launch::can_be_known() const {
  if (plan_.returns_view || plan_.draws) {
    return false;
  }
  if (!plan_.shape_depends_on_data) {
    return true;
  }
  bool masked = false;
  for (const auto& argument : plan_.arguments) {
    for_each_tensor(stack_[first_ + argument.index], [&](const at::Tensor& tensor) {
      masked |= tensor.defined() && (tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte);
    });
  }
  return plan_.indexes && !masked;
}

bool Launch::describe_arguments() {
  signature_.reserve(48);
  signature_.push_back(static_cast<int64_t>(c10::get_default_dtype_as_scalartype()));
  signature_.push_back(device_);
  Describer describer(signature_);
  bool takes_tensors = false, writes_to_host = false;
  for (const auto& argument : plan_.arguments) {
    for_each_tensor(stack_[first_ + argument.index], [&](const at::Tensor& tensor) {
      takes_tensors |= tensor.defined() && on_neuron(tensor);
      writes_to_host |= tensor.defined() && argument.written && !on_neuron(tensor);
    });
  }
  for (size_t i = 0; i < plan_.argument_count && describer.good(); ++i) {
    const IValue& value = stack_[first_ + i];
    if (value.isTensor()) {
      describer.tensor(value.toTensor());
    } else if (is_tensor_list(value)) {
      signature_.push_back(static_cast<int64_t>(value.toListRef().size()));
      for_each_tensor(value, [&](const at::Tensor& tensor) { describer.tensor(tensor); });
    } else {
      describer.value(value, takes_tensors && is_value_only(plan_.schema->arguments()[i]));
    }
  }
  return describer.good() && !writes_to_host;
}

void Launch::watch_what_is_written() {
  for (const auto& argument : plan_.arguments) {
    for_each_tensor(stack_[first_ + argument.index], [&](const at::Tensor& tensor) {
      if (!tensor.defined()) {
        return;
      }
      storages_.push_back(tensor.storage());
      if (argument.written) {
        written_.push_back({tensor, tensor.sizes().vec(), tensor.strides().vec(), tensor.storage_offset(),
                            tensor.storage().data()});
      }
    });
  }
}

bool Launch::is_unchanged() const {
  return std::ranges::all_of(written_, [](const Written& before) {
    const at::Tensor& now = before.tensor;
    return now.sizes() == at::IntArrayRef(before.sizes) && now.strides() == at::IntArrayRef(before.strides) &&
        now.storage_offset() == before.offset && now.storage().data() == before.address;
  });
}

Promise Launch::promise_of_results() const {
  Promise promise;
  promise.can_launch = is_unchanged();
  Positions known;
  const auto add = [&](const at::Tensor& tensor) -> Promise::Slot {
    if (!tensor.defined()) {
      return {at::Tensor(), 0};
    }
    const auto* storage = tensor.storage().unsafeGetStorageImpl();
    promise.can_launch &= on_neuron(tensor) && tensor.device().index() == device_ &&
        std::ranges::none_of(storages_, [&](const c10::Storage& s) { return s.unsafeGetStorageImpl() == storage; });
    auto at = known.find(storage);
    if (!at.has_value()) {
      at = promise.storage_bytes.size();
      known.insert(storage, *at);
      promise.storage_bytes.push_back(storage->nbytes());
    }
    return {geometry_of(tensor), *at};
  };
  const size_t first_result = stack_.size() - plan_.results.size();
  for (size_t i = 0; i < plan_.results.size(); ++i) {
    const IValue& value = stack_[first_result + i];
    const int argument = plan_.results[i].argument;
    Promise::Result result{argument < 0 ? -1 : static_cast<int>(plan_.arguments[static_cast<size_t>(argument)].index),
                           value.isTensorList(), {}};
    if (argument < 0) {
      promise.can_launch &= value.isTensor() || value.isTensorList();
      for_each_tensor(value, [&](const at::Tensor& tensor) { result.slots.push_back(add(tensor)); });
    }
    promise.results.push_back(std::move(result));
  }
  return promise;
}

void Launch::learn(c10::ScalarType counted) {
  if (describable_ && promise_ == nullptr) {
    Promise promise = promise_of_results();
    promise.counted = counted;
    plan_.launches.insert(std::move(signature_), std::move(promise));
  }
}

torch::jit::Stack Launch::snapshot() const {
  torch::jit::Stack arguments;
  arguments.reserve(std::max(plan_.argument_count, plan_.results.size()));
  for (size_t i = first_; i < stack_.size(); ++i) {
    arguments.push_back(as_of_now(stack_[i]));
  }
  return arguments;
}

bool Launch::try_to_queue(faults::Fault fault) {
  if (promise_ == nullptr || !promise_->can_launch || !can_come_late(fault)) {
    return false;
  }
  Results results = make_results(*promise_, stack_, first_, c10::Device(kNeuron, device_));
  auto work = [&plan = plan_, op = op_, arguments = snapshot(), kept = std::move(results.kept),
                     counted = promise_->counted, in_32_bits = computes_64_bits_in_32(),
                     surroundings = Surroundings(), correlation = current_correlation(), device = device_,
                     fault]() mutable {
    surroundings.run([&] {
      faults::act_out(fault, plan.record, device);
      const KernelScope scope(plan.record);
      const DeviceActivity activity(plan.record.name, device, correlation);
      run_queued(plan, op, arguments, in_32_bits, kept);
      activity.finish();
      scope.count(counted, Route::Native, 0);
      if (fault == faults::Fault::LateError) {
        faults::raise_now(plan.record);
      }
    });
  };
  queue::launch(current_stream(device_), plan_.record.name, std::move(work));
  note_kernel(plan_.record, promise_->counted, Route::Native);
  torch::jit::drop(stack_, plan_.argument_count);
  for (IValue& value : results.given) {
    stack_.push_back(std::move(value));
  }
  return true;
}

}  // namespace neuron
