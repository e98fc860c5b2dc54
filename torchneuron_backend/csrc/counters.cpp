#include "counters.h"

#include <memory>
#include <mutex>
#include <unordered_map>

namespace neuron {
namespace {

struct Counted {
  const OpRecord* record;
  c10::ScalarType dtype;
  Route route;
  Cell* cell;
};

struct Registry {
  std::mutex mutex;
  std::unordered_map<std::string, std::unique_ptr<OpRecord>> records;
  // Every cell there is: few of the places that records have for one are ever used.
  std::vector<Counted> counted;
};

Registry& registry() {
  static auto* instance = new Registry();
  return *instance;
}

struct Note {
  const OpRecord* record;
  c10::ScalarType dtype;
  Route route;
};

// The trace that is being taken: 0 when none, else a number that tells one trace's notes from the last one's.
std::atomic<uint64_t> trace_on{0};
std::atomic<uint64_t> traces{0};
thread_local uint64_t notes_of = 0;
thread_local std::vector<Note> notes;

void note(const OpRecord& record, c10::ScalarType dtype, Route route, uint64_t trace) {
  if (notes_of != trace) {
    notes.clear();
    notes_of = trace;
  }
  notes.push_back({&record, dtype, route});
}

const char* route_name(Route route) {
  return route == Route::Native ? "native" : "fallback";
}

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::Copy:
      return "copy";
    case Kind::Meta:
      return "meta";
    default:
      return "compute";
  }
}

template <typename Function>
void for_each_cell(Function function) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  for (const Counted& counted : registry().counted) {
    function(*counted.record, counted.dtype, counted.route, *counted.cell);
  }
}

}  // namespace

std::atomic<bool> counting{true};

Cell& OpRecord::cell(c10::ScalarType dtype, Route route) {
  auto& slot = cells[static_cast<size_t>(dtype) * 2 + static_cast<size_t>(route)];
  Cell* found = slot.load(std::memory_order_acquire);
  if (found == nullptr) {
    std::lock_guard<std::mutex> lock(registry().mutex);
    found = slot.load(std::memory_order_relaxed);
    if (found == nullptr) {
      found = new Cell();  // Lives for ever, as its record does.
      registry().counted.push_back({this, dtype, route, found});
      slot.store(found, std::memory_order_release);
    }
  }
  return *found;
}

OpRecord& op_record(const std::string& name, Kind kind) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  auto& slot = registry().records[name];
  if (slot == nullptr) {
    slot = std::make_unique<OpRecord>(name, kind);
  }
  return *slot;
}

void note_kernel(const OpRecord& record, c10::ScalarType dtype, Route route) {
  if (const uint64_t trace = trace_on.load(std::memory_order_relaxed)) {
    note(record, dtype, route, trace);
  }
}

void KernelScope::count(c10::ScalarType dtype, Route route, uint64_t bytes) const {
  if (!counting.load(std::memory_order_relaxed)) {
    return;
  }
  const auto elapsed = std::chrono::steady_clock::now() - start_;
  Cell& cell = record_.cell(dtype, route);
  cell.calls.fetch_add(1, std::memory_order_relaxed);
  cell.nanoseconds.fetch_add(
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count()),
      std::memory_order_relaxed);
  if (bytes != 0) {
    cell.bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
}

std::vector<CounterRow> read_counters() {
  std::vector<CounterRow> rows;
  for_each_cell([&](const OpRecord& record, c10::ScalarType dtype, Route route, Cell& cell) {
    if (const uint64_t calls = cell.calls.load(std::memory_order_relaxed)) {
      rows.push_back({record.name, dtype_name(dtype), route_name(route), kind_name(record.kind), calls,
                      cell.nanoseconds.load(std::memory_order_relaxed), cell.bytes.load(std::memory_order_relaxed)});
    }
  });
  return rows;
}

void reset_counters() {
  for_each_cell([](const OpRecord&, c10::ScalarType, Route, Cell& cell) {
    cell.calls.store(0, std::memory_order_relaxed);
    cell.nanoseconds.store(0, std::memory_order_relaxed);
    cell.bytes.store(0, std::memory_order_relaxed);
  });
}

void start_trace() {
  trace_on.store(traces.fetch_add(1) + 1);
}

void stop_trace() {
  trace_on.store(0);
}

std::vector<std::tuple<std::string, std::string, std::string>> take_trace() {
  std::vector<std::tuple<std::string, std::string, std::string>> taken;
  if (notes_of == traces.load()) {
    taken.reserve(notes.size());
    for (const Note& n : notes) {
      taken.emplace_back(n.record->name, dtype_name(n.dtype), route_name(n.route));
    }
  }
  notes.clear();
  return taken;
}

std::string dtype_name(c10::ScalarType dtype) {
  return std::string(c10::getDtypeNames(dtype).first);
}

}  // namespace neuron
