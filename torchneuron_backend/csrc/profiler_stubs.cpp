// Device time for torch.autograd.profiler without kineto, which takes it from events recorded around each operator.

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <chrono>
#include <memory>

#include "device.h"

namespace neuron {
namespace {

using torch::profiler::impl::ProfilerStubs;
using torch::profiler::impl::ProfilerVoidEventStub;

class Stubs final : public ProfilerStubs {
 public:
  void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event, int64_t* host_nanoseconds) const override {
    const c10::DeviceIndex index = current_device();
    void* made = nullptr;
    const c10::impl::VirtualGuardImpl guard(kNeuron);
    guard.record(&made, guard.getStream(c10::Device(kNeuron, index)), index, c10::EventFlag::BACKEND_DEFAULT);
    *event = ProfilerVoidEventStub(made, [index](void* dead) {
      c10::impl::VirtualGuardImpl(kNeuron).destroyEvent(dead, index);
    });
    if (device != nullptr) {
      *device = index;
    }
    if (host_nanoseconds != nullptr) {
      *host_nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(
                              std::chrono::system_clock::now().time_since_epoch())
                              .count();
    }
  }

  // Microseconds.
  float elapsed(const ProfilerVoidEventStub* first, const ProfilerVoidEventStub* second) const override {
    const c10::impl::VirtualGuardImpl guard(kNeuron);
    guard.synchronizeEvent(first->get());
    guard.synchronizeEvent(second->get());
    return static_cast<float>(guard.elapsedTime(first->get(), second->get(), current_device()) * 1000);
  }

  void onEachDevice(std::function<void(int)> function) const override {
    for (c10::DeviceIndex index = 0; index < device_count(); ++index) {
      const c10::DeviceGuard guard(c10::Device(kNeuron, index));
      function(index);
    }
  }

  void synchronize() const override {
    c10::impl::VirtualGuardImpl(kNeuron).synchronizeDevice(current_device());
  }

  // There is no other tool that these could tell of a range.
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}
  bool enabled() const override { return true; }
};

const bool registered = [] {
  torch::profiler::impl::registerPrivateUse1Methods(new Stubs());
  return true;
}();

}  // namespace
}  // namespace neuron
