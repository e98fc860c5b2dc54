#pragma once

// Eager's second engine: a native call runs the program compiled for it, not the host kernel.
//
// Programs are made, kept and run by torchneuron_backend/eager.py and compiler/; here is the way there and back. A
// call is told from others by its signature: the operator, how each tensor lies, and the value of all else.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <utility>

#include "op_plan.h"

typedef struct _object PyObject;

namespace neuron::engine {

// From now on, in all threads: programs come from the dict `programs` by their signature, and from
// `make(signature, name, args, kwargs)` where that has none; with None for both, host kernels run. Needs the GIL.
void set_compiled(PyObject* programs, PyObject* make);
bool is_compiled();

// The program of one signature; holds a reference to the Python object. Empty: the engine refuses the call.
class Program {
 public:
  Program() = default;
  explicit Program(PyObject* owned) : object_(owned) {}
  Program(Program&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Program& operator=(Program&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Program();
  explicit operator bool() const { return object_ != nullptr; }

  // Runs the call on top of `stack`, whose tensors are on the host: results take its place, and what the operator
  // writes is written. Arguments that the schema returns stand for themselves. What draws without a generator among
  // its arguments goes on with that of device `core`.
  void run(const OpPlan& plan, torch::jit::Stack& stack, c10::DeviceIndex core) const;

 private:
  PyObject* object_ = nullptr;
};

// The program for the call on top of `stack`, whose tensors are on the device. May compile, which takes long; the GIL
// is taken, and must not be waited for by anybody who waits for this thread.
Program program_for(const OpPlan& plan, const c10::OperatorHandle& op, const torch::jit::Stack& stack);

}  // namespace neuron::engine
