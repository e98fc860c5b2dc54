#include "streams.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "device.h"

namespace neuron {
namespace {

using c10::DeviceIndex;
using c10::Stream;
using c10::StreamId;

constexpr StreamId kPriorities = kLeastPriority - kGreatestPriority + 1;
constexpr StreamId kStreamsPerPriority = 32;

thread_local std::array<StreamId, 64> current_streams{};
std::array<std::atomic<StreamId>, kPriorities> next_stream{};

Stream stream_of(DeviceIndex device, StreamId id) {
  return Stream(Stream::UNSAFE, c10::Device(kNeuron, checked_index(device)), id);
}

}  // namespace

Stream default_stream(DeviceIndex device) {
  return stream_of(device, 0);
}

// The number of a stream tells its priority, so that nothing has to be looked up.
Stream new_stream(DeviceIndex device, int priority) {
  const StreamId level = kLeastPriority - std::clamp(priority, kGreatestPriority, kLeastPriority);
  const StreamId turn = next_stream[static_cast<size_t>(level)].fetch_add(1) % kStreamsPerPriority;
  return stream_of(device, 1 + turn * kPriorities + level);
}

int priority_of(StreamId stream) noexcept {
  return stream <= 0 ? kLeastPriority : kLeastPriority - static_cast<int>((stream - 1) % kPriorities);
}

Stream current_stream(DeviceIndex device) {
  device = checked_index(device);
  return stream_of(device, current_streams[static_cast<size_t>(device)]);
}

Stream exchange_stream(Stream stream) {
  const Stream before = current_stream(stream.device_index());
  current_streams[static_cast<size_t>(before.device_index())] = stream.id();
  return before;
}

}  // namespace neuron
