#include "faults.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/rand_like.h>
#include <c10/util/Exception.h>
#include <csignal>

#include <array>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "allocator.h"

namespace neuron::faults {
namespace {

constexpr std::array<std::pair<const char*, Fault>, 11> kKinds{{
    {"crash", Fault::Crash},
    {"abort", Fault::Abort},
    {"hang", Fault::Hang},
    {"oom", Fault::OutOfMemory},
    {"error", Fault::Error},
    {"nan", Fault::Nan},
    {"wrong_dtype", Fault::WrongDtype},
    {"wrong_shape", Fault::WrongShape},
    {"nondeterminism", Fault::Nondeterminism},
    {"silent_fallback", Fault::SilentFallback},
    {"late_error", Fault::LateError},
}};

struct State {
  std::mutex mutex;
  std::vector<OpRecord*> armed;
  std::string late_error;
  std::atomic<bool> has_late_error{false};
};

State& state() {
  static auto* instance = new State();
  return *instance;
}

Fault kind_called(const std::string& kind) {
  for (const auto& [name, fault] : kKinds) {
    if (kind == name) {
      return fault;
    }
  }
  std::string known;
  for (const auto& name : kinds()) {
    known += (known.empty() ? "" : ", ") + name;
  }
  TORCH_CHECK_VALUE(false, "there is no fault '", kind, "'; the faults are: ", known, ".");
}

bool replaces_the_call(Fault fault) {
  return fault == Fault::Crash || fault == Fault::Abort || fault == Fault::Hang || fault == Fault::OutOfMemory ||
      fault == Fault::Error;
}

void check_op_exists(const std::string& op) {
  const auto dot = op.find('.');
  const auto found = c10::Dispatcher::singleton().findSchema(
      {op.substr(0, dot), dot == std::string::npos ? "" : op.substr(dot + 1)});
  TORCH_CHECK_VALUE(found.has_value(), "there is no operator '", op, "' to put a fault in.");
}

[[noreturn]] void hang() {
  while (true) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

std::string late_error_of(const OpRecord& record) {
  return "injected fault: " + record.name + " failed on the device, seen at this synchronisation";
}

at::Tensor spoiled(Fault fault, const at::Tensor& result) {
  switch (fault) {
    case Fault::Nan:
      return result.is_floating_point() ? at::empty_like(result).fill_(std::numeric_limits<double>::quiet_NaN())
                                        : result;
    case Fault::Nondeterminism:
      return result.is_floating_point() ? result * (1 + 1e-3 * (at::rand_like(result) - 0.5)) : result;
    case Fault::WrongDtype:
      return result.to(result.scalar_type() == at::kFloat ? at::kDouble : at::kFloat);
    case Fault::WrongShape:
      return result.unsqueeze(0);
    default:
      return result;
  }
}

}  // namespace

std::vector<std::string> kinds() {
  std::vector<std::string> names;
  for (const auto& [name, fault] : kKinds) {
    names.emplace_back(name);
  }
  return names;
}

void arm(const std::string& op, const std::string& kind, uint64_t at) {
  const Fault fault = kind_called(kind);
  check_op_exists(op);
  TORCH_CHECK_VALUE(at >= 1, "a fault fires at call 1 or later, not at ", at, ".");
  OpRecord& record = op_record(op);
  TORCH_CHECK_VALUE(record.kind == Kind::Compute || replaces_the_call(fault), "'", op,
                    "' moves data and computes nothing, so the fault '", kind, "' cannot be put in it.");
  std::lock_guard<std::mutex> lock(state().mutex);
  state().armed.push_back(&record);
  // A replaced Armed is leaked: another thread may be looking at it.
  record.fault.store(new Armed{fault, at});
}

void disarm_all() {
  std::lock_guard<std::mutex> lock(state().mutex);
  for (OpRecord* record : state().armed) {
    record->fault.store(nullptr);
  }
  state().armed.clear();
  state().has_late_error.store(false);
}

Fault strike(OpRecord& record) {
  Armed* armed = record.fault.load(std::memory_order_acquire);
  return armed == nullptr || armed->calls.fetch_add(1) + 1 != armed->at ? Fault::None : armed->fault;
}

void act_out(Fault fault, const OpRecord& record, c10::DeviceIndex device) {
  switch (fault) {
    case Fault::Crash:
      std::signal(SIGSEGV, SIG_DFL);
      std::raise(SIGSEGV);
      std::abort();
    case Fault::Abort:
      std::abort();
    case Fault::Hang:
      hang();
    case Fault::OutOfMemory:
      throw_out_of_memory(device, memory_limit(device));
    case Fault::Error:
      TORCH_CHECK(false, "injected fault: ", record.name, " failed on neuron:", static_cast<int>(device));
    default:
      return;
  }
}

Fault before(OpRecord& record, c10::DeviceIndex device) {
  const Fault fault = strike(record);
  act_out(fault, record, device);
  return fault;
}

void leave_late_error(const OpRecord& record) {
  std::lock_guard<std::mutex> lock(state().mutex);
  state().late_error = late_error_of(record);
  state().has_late_error.store(true);
}

void raise_now(const OpRecord& record) {
  TORCH_CHECK(false, late_error_of(record));
}

void spoil(Fault fault, const OpRecord& record, size_t results, std::vector<c10::IValue>& stack) {
  for (size_t i = stack.size() - results; i < stack.size(); ++i) {
    if (!stack[i].isTensor() || !stack[i].toTensor().defined()) {
      continue;
    }
    const at::Tensor& result = stack[i].toTensor();
    if ((fault == Fault::Nan || fault == Fault::Nondeterminism) && result.is_floating_point()) {
      result.copy_(spoiled(fault, result));
    } else {
      stack[i] = spoiled(fault, result);
    }
    return;
  }
}

void raise_late_error() {
  if (!state().has_late_error.load(std::memory_order_relaxed)) {
    return;
  }
  std::lock_guard<std::mutex> lock(state().mutex);
  state().has_late_error.store(false);
  TORCH_CHECK(false, state().late_error);
}

}  // namespace neuron::faults
