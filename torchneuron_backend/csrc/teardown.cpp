#include "teardown.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>

#include <future>
#include <memory>
#include <thread>

#include "device.h"

namespace neuron {
namespace {

// Takes one gradient on `device`, hence runs on the thread autograd keeps for it, and computes nothing.
struct Marker : torch::autograd::Node {
  explicit Marker(const at::Tensor& like) { add_input_metadata(like); }
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override { return {}; }
};

void pass_through_thread_of(c10::DeviceIndex index) {
  const auto nothing = at::empty({0}, at::TensorOptions().device(c10::Device(kNeuron, index)));
  const auto marker = c10::make_intrusive<Marker>(nothing);
  torch::autograd::Engine::get_default_engine().execute(
      {torch::autograd::Edge(marker, 0)}, {nothing}, /*keep_graph=*/false, /*create_graph=*/false,
      /*accumulate_grad=*/true);
}

}  // namespace

// Autograd's thread for a device tells the caller that a backward is done, and lets go of it afterwards. What it
// lets go of holds Python objects (the caller's context), for which it takes the GIL. If the interpreter has begun
// its teardown by then, CPython ends the thread inside a destructor, and that ends the process: "terminate called
// without an active exception". A marker sent after that backward runs when the thread has let go of it. The marker
// is sent by a thread of its own, which has no Python objects to pass on.
bool settle_autograd_threads(std::chrono::milliseconds patience) {
  auto settled = std::make_shared<std::promise<void>>();
  auto done = settled->get_future();
  std::thread([settled] {
    try {
      for (c10::DeviceIndex index = 0; index < device_count(); ++index) {
        pass_through_thread_of(index);
      }
    } catch (...) {
      // A device that is out of order keeps no backward either.
    }
    settled->set_value();
  }).detach();
  return done.wait_for(patience) == std::future_status::ready;
}

}  // namespace neuron
