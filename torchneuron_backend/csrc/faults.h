#pragma once

// Faults on demand, so that what drives the device can be tested against a device that misbehaves.
//
// A fault is armed for one op (the overload that executes) and fires once, at the Nth call from then on.

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "counters.h"

namespace neuron::faults {

enum class Fault : uint8_t {
  None,
  Crash,           // segmentation fault
  Abort,           // abort()
  Hang,            // never returns; does not hold the GIL
  OutOfMemory,     // torch.OutOfMemoryError
  Error,           // RuntimeError
  Nan,             // the first floating-point result is all NaN
  WrongDtype,      // the first result comes in another dtype
  WrongShape,      // the first result gets one dimension more
  Nondeterminism,  // the first floating-point result differs in its last bits from call to call
  SilentFallback,  // runs on the host and counts as native
  LateError,       // RuntimeError at the next synchronisation
};

struct Armed {
  Fault fault;
  uint64_t at;  // fires at this call, counting from 1
  std::atomic<uint64_t> calls{0};
};

// Arms one fault; throws a sentence when the op or the kind does not exist. `at` counts from 1.
void arm(const std::string& op, const std::string& kind, uint64_t at);
void disarm_all();
std::vector<std::string> kinds();

// Called once for each call of an op: the fault that strikes it.
Fault strike(OpRecord& record);

// Called before the kernel runs: acts out a fault that replaces the call. Any other has to be seen to after it.
void act_out(Fault fault, const OpRecord& record, c10::DeviceIndex device);

// Both at once, for kernels that are always waited for.
Fault before(OpRecord& record, c10::DeviceIndex device);

// Spoils the results on top of `stack`, as `fault` says.
void spoil(Fault fault, const OpRecord& record, size_t results, std::vector<c10::IValue>& stack);

// After a kernel that was waited for: leaves a LateError for the next synchronisation.
void leave_late_error(const OpRecord& record);

// Raises a LateError at once, in a queued kernel: there it is late enough.
[[noreturn]] void raise_now(const OpRecord& record);

// Raises the error a LateError fault has left behind, once.
void raise_late_error();

}  // namespace neuron::faults
