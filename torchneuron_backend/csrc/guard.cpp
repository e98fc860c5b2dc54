// The device guard: how torch switches devices, and what it asks of streams and events.

#include <c10/core/Event.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include <chrono>
#include <memory>

#include "device.h"
#include "queue.h"
#include "streams.h"

namespace neuron {
namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::Stream;
using c10::StreamId;

// Where an event was last recorded.
struct Event {
  std::shared_ptr<queue::Moment> moment;
};

const queue::Moment& moment_of(void* event) {
  return *static_cast<Event*>(event)->moment;
}

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

  Stream getStream(Device device) const override { return current_stream(checked(device).index()); }
  Stream getDefaultStream(Device device) const override { return default_stream(checked(device).index()); }

  Stream getStreamFromGlobalPool(Device device, bool high_priority) const override {
    return getNewStream(device, high_priority ? kGreatestPriority : kLeastPriority);
  }

  Stream getNewStream(Device device, int priority) const override {
    return new_stream(checked(device).index(), priority);
  }

  Stream exchangeStream(Stream stream) const override { return exchange_stream(stream); }

  void* getStreamNativeHandle(const Stream stream) const override {
    return reinterpret_cast<void*>(static_cast<uintptr_t>(stream.id()));
  }

  bool queryStream(const Stream& stream) const override { return queue::is_idle(stream); }
  void synchronizeStream(const Stream& stream) const override { queue::synchronize(stream); }
  void synchronizeDevice(const DeviceIndex index) const override { queue::synchronize(checked_index(index)); }

  void record(void** event, const Stream& stream, const DeviceIndex device_index,
              const c10::EventFlag) const override {
    TORCH_CHECK(device_index == -1 || device_index == stream.device_index(), "an event of neuron:",
                static_cast<int>(device_index), " cannot be recorded on a stream of ", stream.device());
    if (*event == nullptr) {
      *event = new Event{};
    }
    static_cast<Event*>(*event)->moment = queue::record(stream);
  }

  void block(void* event, const Stream& stream) const override {
    queue::wait_for(stream, static_cast<Event*>(event)->moment);
  }

  bool queryEvent(void* event) const override { return moment_of(event).done.load(std::memory_order_acquire); }
  void synchronizeEvent(void* event) const override { queue::synchronize(moment_of(event)); }
  void destroyEvent(void* event, const DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }

  // Milliseconds between two events that are done, as torch has checked.
  double elapsedTime(void* first, void* second, const DeviceIndex) const override {
    return std::chrono::duration<double, std::milli>(moment_of(second).when - moment_of(first).when).count();
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

}  // namespace
}  // namespace neuron
