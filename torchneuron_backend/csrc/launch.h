#pragma once

// Which calls of an operator need not be waited for.
//
// What has to be known before a call runs is what it returns. That is learnt, not derived: the first call with
// arguments of some kind (dtypes, shapes, strides, and all numbers that a shape may depend on) runs as in blocking
// launch, as the chip would compile it then, and the geometry of its results is kept. Later calls of that kind are
// given results of that geometry at once and queued. So strides are the host kernel's own, errors in arguments are
// raised by the call that makes them, and what cannot be known beforehand simply never is.

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "faults.h"

namespace c10 {
class OperatorHandle;
}  // namespace c10

namespace neuron {

struct OpPlan;

// What calls of one kind return.
struct Promise {
  struct Slot {
    at::Tensor like;  // on meta; undefined where the call returns no tensor
    size_t storage;
  };
  struct Result {
    int argument;  // of the call, on the stack; -1: a new tensor, or a list of them
    bool list;
    std::vector<Slot> slots;
  };
  bool can_launch = false;
  c10::ScalarType counted = c10::ScalarType::Undefined;  // the dtype the call is counted under
  std::vector<size_t> storage_bytes;
  std::vector<Result> results;
};

// A kind of call, in numbers.
using Signature = std::vector<int64_t>;

struct SignatureHash {
  size_t operator()(const Signature& words) const noexcept;
};

// What is known about the calls of one operator.
class LaunchTable {
 public:
  std::shared_ptr<const Promise> find(const Signature& signature) const;
  void insert(Signature signature, Promise promise);

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<Signature, std::shared_ptr<const Promise>, SignatureHash> promises_;
};

// One call that may be launched without waiting.
class Launch {
 public:
  Launch(OpPlan& plan, const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::DeviceIndex device);

  // Queues the call on the current stream and puts its results on the stack; false when it has to be waited for.
  bool try_to_queue(faults::Fault fault);

  // After the call has run all the same: keeps what it returned, for the next of its kind.
  void learn(c10::ScalarType counted);

 private:
  struct Written {
    at::Tensor tensor;
    std::vector<int64_t> sizes, strides;
    int64_t offset;
    const void* address;
  };

  bool can_be_known() const;
  bool describe_arguments();
  void watch_what_is_written();
  bool is_unchanged() const;
  Promise promise_of_results() const;
  torch::jit::Stack snapshot() const;

  OpPlan& plan_;
  const c10::OperatorHandle& op_;
  torch::jit::Stack& stack_;
  const size_t first_;
  const c10::DeviceIndex device_;
  bool describable_ = false;
  Signature signature_;
  std::shared_ptr<const Promise> promise_;
  std::vector<Written> written_;
  std::vector<c10::Storage> storages_;  // of the arguments
};

}  // namespace neuron
