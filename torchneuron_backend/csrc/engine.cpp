#include "engine.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/native/Resize.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/Exception.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "device.h"
#include "generator.h"
#include "storage.h"
#include "tensor_lists.h"

namespace neuron::engine {
namespace {

using c10::IValue;

std::atomic<bool> compiled{false};
// Touched with the GIL held.
PyObject* programs = nullptr;
PyObject* make_program = nullptr;

// What Dynamo calls for each new frame of this thread; it is given `callback`, and what it had is returned.
// Between the graphs of a compiled function operators run eagerly while Dynamo looks for more to compile.
py::object set_dynamo(const py::handle callback) {
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<py::object> setter;
  const auto& set = setter
                        .call_once_and_store_result([] {
                          return py::object(py::module_::import("torch._C._dynamo.eval_frame").attr("set_eval_frame"));
                        })
                        .get_stored();
  return set(callback);
}

// The GIL, and none of the program's own function modes, nor Dynamo: they see what the program calls, not how it
// is computed.
class InPython {
 public:
  InPython()
      : before_(at::impl::PythonTorchFunctionTLS::get_disabled_state()), dynamo_(set_dynamo(py::none())) {
    at::impl::PythonTorchFunctionTLS::set_disabled_state(at::impl::ALL_DISABLED);
  }
  ~InPython() {
    at::impl::PythonTorchFunctionTLS::set_disabled_state(before_);
    const py::error_scope error;
    set_dynamo(dynamo_);
  }
  InPython(const InPython&) = delete;
  InPython& operator=(const InPython&) = delete;

  // What `function` returns; a Python exception goes through torch as itself, also across threads.
  template <typename Function>
  static auto call(Function function) {
    const py::gil_scoped_acquire gil;
    const InPython here;
    try {
      return function();
    } catch (py::error_already_set& raised) {
      raised.restore();
      python_error error;
      error.persist();
      throw error;
    }
  }

 private:
  const at::impl::TorchFunctionDisabledState before_;
  const py::object dynamo_;
};

// What is looked up about a call warns as the call itself will.
class Quiet final : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

bool is_number(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.unsafeGetTensorImpl()->is_wrapped_number();
}

bool is_out(const c10::Argument& argument) {
  return argument.is_out() || (argument.kwarg_only() && argument.alias_info() != nullptr && argument.alias_info()->isWrite());
}

template <typename Function>
void for_each_tensor(const IValue& value, Function function) {
  if (value.isTensor()) {
    function(value.toTensor());
  } else if (is_tensor_list(value)) {
    for (const IValue& item : value.toListRef()) {
      if (item.isTensor()) {
        function(item.toTensor());
      }
    }
  }
}

// The bytes by which calls are told apart. Within one process only: operators go by their plan's address.
class Signature {
 public:
  Signature(const OpPlan& plan, const torch::jit::Stack& stack)
      : writes_(std::ranges::any_of(plan.arguments, [](const auto& argument) { return argument.written; })) {
    add(&plan);
    // What operators that are told no dtype compute in.
    add(c10::get_default_dtype_as_scalartype());
    for (size_t i = stack.size() - plan.argument_count; i < stack.size(); ++i) {
      add_value(stack[i]);
    }
  }

  const std::string& bytes() const { return bytes_; }

 private:
  template <typename T>
  void add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }

  template <typename T>
  void add(char kind, const T& value) {
    bytes_.push_back(kind);
    add(value);
  }

  void add_value(const IValue& value) {
    if (value.isTensor()) {
      add_tensor(value.toTensor());
    } else if (value.isInt()) {
      add('i', value.toInt());
    } else if (value.isDouble()) {
      add('f', value.toDouble());
    } else if (value.isBool()) {
      add('b', value.toBool());
    } else if (value.isComplexDouble()) {
      add('c', value.toComplexDouble());
    } else if (value.isString()) {
      add('s', value.toStringRef().size());
      bytes_ += value.toStringRef();
    } else if (value.isList()) {
      add('l', value.toListRef().size());
      for (const IValue& item : value.toListRef()) {
        add_value(item);
      }
    } else if (value.isDevice()) {
      add('d', value.toDevice().type());
    } else {
      bytes_.push_back(value.isNone() ? 'n' : value.isGenerator() ? 'g' : '?');
    }
  }

  void add_tensor(const at::Tensor& tensor) {
    if (!tensor.defined()) {
      bytes_.push_back('u');
      return;
    }
    if (is_number(tensor)) {
      add('w', tensor.scalar_type());
      bytes_.append(static_cast<const char*>(tensor.const_data_ptr()), tensor.itemsize());
      return;
    }
    add('t', tensor.scalar_type());
    add(tensor.dim());
    for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
      add(tensor.size(dim));
      add(tensor.stride(dim));
    }
    if (writes_) {  // then it matters which of them overlap
      add(slot_of(tensor.storage().unsafeGetStorageImpl()));
      add(tensor.storage_offset());
    }
  }

  size_t slot_of(const c10::StorageImpl* storage) {
    const auto found = std::ranges::find(storages_, storage);
    if (found == storages_.end()) {
      storages_.push_back(storage);
      return storages_.size() - 1;
    }
    return static_cast<size_t>(found - storages_.begin());
  }

  const bool writes_;
  std::string bytes_;
  c10::SmallVector<const c10::StorageImpl*, 8> storages_;
};

py::object to_python(const c10::Argument& argument, const IValue& value) {
  auto type = argument.real_type();
  if (auto optional = type->cast<c10::OptionalType>()) {
    type = optional->getElementType();
  }
  if (value.isTensor() && value.toTensor().defined() && is_number(value.toTensor())) {
    return torch::jit::toPyObject(IValue(value.toTensor().item()));
  }
  if (value.isInt()) {
    switch (type->kind()) {
      case c10::TypeKind::ScalarTypeType:
        return py::cast(value.toScalarType());
      case c10::TypeKind::LayoutType:
        return py::cast(value.toLayout());
      case c10::TypeKind::MemoryFormatType:
        return py::cast(value.toMemoryFormat());
      default:
        break;
    }
  }
  return torch::jit::toPyObject(value);
}

std::pair<py::tuple, py::dict> arguments_of(const OpPlan& plan, const torch::jit::Stack& stack) {
  py::list positional;
  py::dict keywords;
  for (size_t i = 0; i < plan.argument_count; ++i) {
    const auto& argument = plan.schema->arguments()[i];
    auto value = to_python(argument, stack[stack.size() - plan.argument_count + i]);
    if (argument.kwarg_only()) {
      keywords[argument.name().c_str()] = std::move(value);
    } else {
      positional.append(std::move(value));
    }
  }
  return {py::tuple(positional), std::move(keywords)};
}

py::list inputs_of(const OpPlan& plan, const torch::jit::Stack& stack) {
  py::list inputs;
  for (size_t i = 0; i < plan.argument_count; ++i) {
    if (is_out(plan.schema->arguments()[i])) {
      continue;
    }
    for_each_tensor(stack[stack.size() - plan.argument_count + i], [&](const at::Tensor& tensor) {
      if (tensor.defined() && !is_number(tensor)) {
        inputs.append(tensor);
      }
    });
  }
  return inputs;
}

// The host generator that a random operator draws from.
at::Generator generator_of(const OpPlan& plan, const torch::jit::Stack& stack, c10::DeviceIndex core) {
  for (const auto& argument : plan.arguments) {
    const IValue& value = stack[stack.size() - plan.argument_count + argument.index];
    if (value.isGenerator()) {
      return value.toGenerator();
    }
  }
  return host_generator(default_generator(core));
}

// As a host kernel leaves an argument that it writes: resized where its size is not the result's, with the result's
// strides then, and in its own dtype.
void write(const at::Tensor& target, const at::Tensor& computed) {
  if (at::native::resize_output(target, computed.sizes())) {
    target.unsafeGetTensorImpl()->set_sizes_and_strides(computed.sizes(), computed.strides());
  }
  write_over(target, computed);
}

IValue to_ivalue(const c10::Argument& result, py::handle value) {
  if (result.type()->kind() == c10::TypeKind::ListType) {
    return py::cast<std::vector<at::Tensor>>(value);
  }
  return value.is_none() ? at::Tensor() : py::cast<at::Tensor>(value);
}

}  // namespace

void set_compiled(PyObject* new_programs, PyObject* make) {
  // The old ones stay alive: a thread may be on its way to them.
  compiled.store(false);
  if (make != Py_None) {
    programs = py::reinterpret_borrow<py::object>(new_programs).release().ptr();
    make_program = py::reinterpret_borrow<py::object>(make).release().ptr();
    compiled.store(true);
  }
}

bool is_compiled() {
  return compiled.load(std::memory_order_relaxed);
}

Program::~Program() {
  if (object_ != nullptr) {
    const py::gil_scoped_acquire gil;
    Py_DECREF(object_);
  }
}

Program program_for(const OpPlan& plan, const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const Signature signature(plan, stack);
  return InPython::call([&] {
    const py::bytes key(signature.bytes());
    py::object found = py::reinterpret_borrow<py::object>(PyDict_GetItemWithError(programs, key.ptr()));
    if (!found) {
      Quiet quiet;
      const c10::WarningUtils::WarningHandlerGuard guard(&quiet);
      auto [args, kwargs] = arguments_of(plan, stack);
      found = py::handle(make_program)(key, toString(op.operator_name()), args, kwargs);
    }
    return found.is_none() ? Program() : Program(found.release().ptr());
  });
}

void Program::run(const OpPlan& plan, torch::jit::Stack& stack, c10::DeviceIndex core) const {
  torch::jit::Stack results;
  std::vector<std::optional<at::Tensor>> written;
  InPython::call([&] {
    const py::list inputs = inputs_of(plan, stack);
    const py::object answer = plan.draws ? py::handle(object_)(inputs, generator_of(plan, stack, core))
                                         : py::handle(object_)(inputs);
    const auto computed = py::cast<std::pair<py::list, py::list>>(answer);
    size_t next = 0;
    for (size_t i = 0; i < plan.results.size(); ++i) {
      const bool is_argument = plan.results[i].argument >= 0;
      results.push_back(is_argument ? IValue() : to_ivalue(plan.schema->returns()[i], computed.first[next++]));
    }
    for (const py::handle value : computed.second) {
      written.push_back(value.is_none() ? std::nullopt : std::optional(py::cast<at::Tensor>(value)));
    }
  });
  size_t next = 0;
  for (const auto& argument : plan.arguments) {
    if (argument.written) {
      for_each_tensor(stack[stack.size() - plan.argument_count + argument.index], [&](const at::Tensor& target) {
        if (const auto& computed = written.at(next++)) {
          write(target, *computed);
        }
      });
    }
  }
  torch::jit::drop(stack, plan.argument_count);
  std::move(results.begin(), results.end(), std::back_inserter(stack));
}

}  // namespace neuron::engine
