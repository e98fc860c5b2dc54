#pragma once

// The hardware queue of each device: work that the host has launched and does not wait for.
//
// Off by default: launching is blocking, and all this costs is one relaxed load. Once it is on, each device has a
// thread that takes from the stream of the highest priority whose head can run, in launch order among equals. What
// fails stops its stream: what is queued behind it there, and on streams that wait for it, is dropped, until the
// error is raised by a synchronisation; then the stream works again.

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace neuron::queue {

struct Failure;

// A point in a stream: it is done when all that was queued before it is.
struct Moment {
  std::atomic<bool> done{false};
  // Set before `done`.
  std::chrono::steady_clock::time_point when;
  std::shared_ptr<Failure> failure;  // what had stopped the stream by then, if anything
};

namespace detail {
extern std::atomic<bool> ever_asynchronous;
}

// Whether there has been anything but blocking launch in this process.
inline bool active() noexcept {
  return detail::ever_asynchronous.load(std::memory_order_relaxed);
}

// Whether this thread may launch without waiting, now. Never in the thread of a queue.
bool asynchronous() noexcept;

// Blocking launch from now on, or asynchronous. Going back to blocking waits for what is queued.
void set_asynchronous(bool on);

// Queues `work` on `stream`; `op` names it in errors and lives for ever. Waits while the queue is full.
void launch(const c10::Stream& stream, const std::string& op, std::function<void()> work);

// How many pieces of work have been queued in this process, on all devices.
uint64_t launched();

// The present end of `stream`'s work.
std::shared_ptr<Moment> record(const c10::Stream& stream);

// What is queued on `stream` from now on runs after `moment`, which may be of another device.
void wait_for(const c10::Stream& stream, std::shared_ptr<Moment> moment);

bool is_idle(const c10::Stream& stream);

// Wait, give the warnings of what has run, and raise the error that has stopped what was waited for: a RuntimeError
// that names the operator. Each error is raised once. The GIL is released while waiting, if this thread holds it.
void synchronize(const c10::Stream& stream);
void synchronize(c10::DeviceIndex device);
void synchronize(const Moment& moment);
void synchronize_all();

// Wait and raise nothing.
void finish(c10::DeviceIndex device);
void finish_all();

// At the end of the process: finishes, warns of errors that nobody has been told, ends the threads, and launches
// nothing any more.
void shut_down();

}  // namespace neuron::queue
