#pragma once

// Who ran what, where: calls, time and bytes per (op overload, dtype, route), and a trace of executed kernels.
//
// An op's record is found once; counting a call is then three relaxed atomic additions, from any thread.

#include <c10/core/ScalarType.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace neuron {

// Native: on device memory, in place of the core. Fallback: copied to the host, run there, copied back.
enum class Route : uint8_t { Native, Fallback };

// What a record's op does. Only `Compute` says anything about operator coverage.
enum class Kind : uint8_t { Compute, Copy, Meta };

namespace faults {
struct Armed;
}

struct Cell {
  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> nanoseconds{0};
  // Bytes that crossed the border between host and device, or between two devices.
  std::atomic<uint64_t> bytes{0};
};

struct OpRecord {
  static constexpr size_t kDtypes = 64;

  OpRecord(std::string name, Kind kind) : name(std::move(name)), kind(kind) {}

  Cell& cell(c10::ScalarType dtype, Route route);

  const std::string name;
  const Kind kind;
  // The fault to inject into this op, if one is armed (faults.h).
  std::atomic<faults::Armed*> fault{nullptr};
  std::array<std::atomic<Cell*>, kDtypes * 2> cells{};
};

// The record of an op, made at first sight. Records live for ever, so a reference may be kept.
OpRecord& op_record(const std::string& name, Kind kind = Kind::Compute);

// Whether calls are counted: on, unless it is to be measured what counting costs (benchmarks/device.py).
extern std::atomic<bool> counting;

// Tells the trace, if one is taken, that this thread executes a kernel.
void note_kernel(const OpRecord& record, c10::ScalarType dtype, Route route);

// Times one kernel. Counts it in finish(), so that a kernel that throws is not counted. count() does not tell the
// trace: a queued kernel has been noted by the thread that launched it.
class KernelScope {
 public:
  explicit KernelScope(OpRecord& record) : record_(record) { restart(); }
  // What went before was waiting for other work.
  void restart() {
    if (counting.load(std::memory_order_relaxed)) {
      start_ = std::chrono::steady_clock::now();
    }
  }
  void count(c10::ScalarType dtype, Route route, uint64_t bytes) const;
  void finish(c10::ScalarType dtype, Route route, uint64_t bytes) const {
    count(dtype, route, bytes);
    note_kernel(record_, dtype, route);
  }

 private:
  OpRecord& record_;
  std::chrono::steady_clock::time_point start_;
};

struct CounterRow {
  std::string op, dtype, route, kind;
  uint64_t calls, nanoseconds, bytes;
};

std::vector<CounterRow> read_counters();
void reset_counters();

// While tracing is on, each thread notes the kernels it executes; take_trace() returns and clears this thread's notes.
void start_trace();
void stop_trace();
std::vector<std::tuple<std::string, std::string, std::string>> take_trace();

std::string dtype_name(c10::ScalarType dtype);

}  // namespace neuron
