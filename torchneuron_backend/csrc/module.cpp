// The Python module torchneuron_backend._C: thin bindings, documented in _C.pyi.

#include <torch/csrc/Dtype.h>
#include <torch/csrc/utils/pybind.h>

#include <chrono>

#include "allocator.h"
#include "boxed.h"
#include "counters.h"
#include "device.h"
#include "engine.h"
#include "faults.h"
#include "generator.h"
#include "lowerings.h"
#include "queue.h"
#include "storage.h"
#include "streams.h"
#include "teardown.h"

namespace py = pybind11;

namespace {

at::Tensor host_alias(const at::Tensor& tensor, bool writable) {
  TORCH_CHECK_TYPE(tensor.device().type() == neuron::kNeuron && tensor.layout() == at::kStrided,
                   "host_alias takes a dense neuron tensor, got one on ", tensor.device());
  neuron::use_device();
  if (neuron::queue::active()) {
    neuron::queue::synchronize(tensor.device().index());
  }
  if (writable) {
    neuron::own_memory(tensor);
  }
  return neuron::alias_on_host(tensor, neuron::host_storage_over(tensor.storage(), /*keep_alive=*/true));
}

at::Tensor adopt(const at::Tensor& host, c10::DeviceIndex device) {
  return neuron::adopt_from_host(host, c10::Device(neuron::kNeuron, neuron::checked_index(device)));
}

py::list op_counters() {
  neuron::queue::finish_all();
  py::list rows;
  for (const auto& row : neuron::read_counters()) {
    py::dict entry;
    entry["op"] = row.op;
    entry["dtype"] = row.dtype;
    entry["route"] = row.route;
    entry["kind"] = row.kind;
    entry["calls"] = row.calls;
    entry["ns"] = row.nanoseconds;
    entry["bytes"] = row.bytes;
    rows.append(std::move(entry));
  }
  return rows;
}

int dtype_number(const py::object& dtype) {
  TORCH_CHECK_TYPE(THPDtype_Check(dtype.ptr()), "expected a torch.dtype");
  return static_cast<int>(reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type);
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  const auto no_gil = py::call_guard<py::gil_scoped_release>();

  m.def("device_count", &neuron::device_count);
  m.def("current_device", &neuron::current_device);
  m.def("set_device", &neuron::set_current_device);
  m.def("is_in_bad_fork", &neuron::in_bad_fork);
  m.def("is_initialized", &neuron::device_in_use);
  m.def("synchronize", &neuron::queue::synchronize_all, no_gil);
  m.def("launch_asynchronously", &neuron::queue::set_asynchronous, no_gil);
  m.def("launches_asynchronously", &neuron::queue::asynchronous);
  m.def("launched_work", &neuron::queue::launched, no_gil);
  m.def("shut_down_queues", &neuron::queue::shut_down, no_gil);
  m.def("stream_priority", [](int64_t stream) { return neuron::priority_of(stream); });

  m.def("settle_autograd_threads", [](double seconds) {
    return neuron::settle_autograd_threads(std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000)));
  }, no_gil);

  m.def("default_generator", [](c10::DeviceIndex index) { return neuron::default_generator(index); });

  m.def("host_alias", &host_alias, py::arg("tensor"), py::arg("writable"));
  m.def("adopt", &adopt);
  m.def("set_memory_limit", &neuron::set_memory_limit);
  m.def("memory_limit", &neuron::memory_limit);

  m.def("op_counters", &op_counters);
  m.def("reset_op_counters", [] {
    neuron::queue::finish_all();
    neuron::reset_counters();
  });
  m.def("count_ops", [](bool on) { neuron::counting.store(on); });
  m.def("start_op_trace", &neuron::start_trace);
  m.def("stop_op_trace", &neuron::stop_trace);
  m.def("take_op_trace", &neuron::take_trace);

  m.def("register_lowerings", &neuron::register_lowerings, no_gil, py::arg("table"), py::arg("conditional") = py::list());
  m.def("is_native", [](const std::string& op, const py::object& dtype) {
    return neuron::is_native(op, dtype_number(dtype));
  });
  m.def("dtype_number", &dtype_number);

  m.def("compute_64_bits_in_32", &neuron::compute_64_bits_in_32);
  m.def("computes_64_bits_in_32", &neuron::computes_64_bits_in_32);

  m.def("set_compiled_engine", [](const py::object& programs, const py::object& make) {
    neuron::engine::set_compiled(programs.ptr(), make.ptr());
  });
  m.def("has_compiled_engine", &neuron::engine::is_compiled);

  m.def("arm_fault", &neuron::faults::arm);
  m.def("disarm_faults", &neuron::faults::disarm_all);
  m.def("fault_kinds", &neuron::faults::kinds);
}
