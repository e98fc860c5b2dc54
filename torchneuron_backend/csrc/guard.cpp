// The device guard: how torch switches devices, and its streams and events.
//
// A device has one hardware queue and runs what it is given at once, so every stream keeps order with every
// other, all work is complete when it has been issued, and an event is the moment it was recorded.

#include <c10/core/Event.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <chrono>

#include "device.h"
#include "faults.h"

namespace neuron {
namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::Stream;
using c10::StreamId;

constexpr StreamId kStreamsPerDevice = 32;

thread_local std::array<StreamId, 64> current_streams{};
std::atomic<StreamId> next_stream{0};

struct Event {
  std::chrono::steady_clock::time_point recorded;
  bool timed;
};

Device checked(Device device) {
  TORCH_CHECK(device.is_privateuseone(), "expected a neuron device, got ", device);
  return Device(kNeuron, checked_index(device.index()));
}

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kNeuron; }

  Device exchangeDevice(Device device) const override {
    const Device before = getDevice();
    set_current_device(device.index());
    return before;
  }

  Device getDevice() const override { return Device(kNeuron, current_device()); }
  void setDevice(Device device) const override { set_current_device(device.index()); }
  void uncheckedSetDevice(Device device) const noexcept override {
    set_current_device_unchecked(device.index());
  }
  DeviceIndex deviceCount() const noexcept override { return device_count(); }

  // What a NeuronCore computes in. Other dtypes work, by the fallback.
  c10::DeviceCapability getDeviceCapability(Device) const override {
    c10::DeviceCapability capability;
    capability.capability_data.capability_bits = 0;
    auto& supported = capability.capability_data.supported_scalar_types;
    supported.has_BFloat16 = supported.has_Float = supported.has_Half = supported.has_Bool = true;
    supported.has_Byte = supported.has_Char = supported.has_Short = supported.has_Int = supported.has_Long = true;
    return capability;
  }

  Stream getStream(Device device) const override {
    device = checked(device);
    return Stream(Stream::UNSAFE, device, current_streams[static_cast<size_t>(device.index())]);
  }

  Stream getDefaultStream(Device device) const override { return Stream(Stream::UNSAFE, checked(device), 0); }

  Stream getStreamFromGlobalPool(Device device, bool) const override { return getNewStream(device, 0); }

  Stream getNewStream(Device device, int) const override {
    return Stream(Stream::UNSAFE, checked(device), 1 + next_stream.fetch_add(1) % kStreamsPerDevice);
  }

  Stream exchangeStream(Stream stream) const override {
    const Stream before = getStream(stream.device());
    current_streams[static_cast<size_t>(before.device_index())] = stream.id();
    return before;
  }

  void* getStreamNativeHandle(const Stream stream) const override {
    return reinterpret_cast<void*>(static_cast<uintptr_t>(stream.id()));
  }

  bool queryStream(const Stream&) const override { return true; }
  void synchronizeStream(const Stream&) const override { faults::raise_late_error(); }
  void synchronizeDevice(const DeviceIndex index) const override {
    checked_index(index);
    faults::raise_late_error();
  }

  void record(void** event, const Stream& stream, const DeviceIndex device_index,
              const c10::EventFlag flag) const override {
    TORCH_CHECK(device_index == -1 || device_index == stream.device_index(), "an event of neuron:",
                static_cast<int>(device_index), " cannot be recorded on a stream of ", stream.device());
    if (*event == nullptr) {
      *event = new Event{};
    }
    auto* record = static_cast<Event*>(*event);
    record->recorded = std::chrono::steady_clock::now();
    record->timed = flag == c10::EventFlag::BACKEND_DEFAULT;
  }

  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override { faults::raise_late_error(); }
  void destroyEvent(void* event, const DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }

  // Milliseconds between two recorded events.
  double elapsedTime(void* first, void* second, const DeviceIndex) const override {
    TORCH_CHECK(first != nullptr && second != nullptr,
                "Both events must be recorded before calculating elapsed time.");
    const auto span = static_cast<Event*>(second)->recorded - static_cast<Event*>(first)->recorded;
    return std::chrono::duration<double, std::milli>(span).count();
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

}  // namespace
}  // namespace neuron
