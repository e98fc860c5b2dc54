#include "profiler.h"

#define FMT_HEADER_ONLY 1
#include <kineto/libkineto.h>
#include <kineto/output_base.h>
#include <kineto/time_since_epoch.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "queue.h"

namespace neuron {
namespace {

using libkineto::ActivityType;

struct Activity {
  const std::string* name;  // of an OpRecord, which lives for ever
  int64_t started, ended;
  int32_t device;
  int32_t correlation;  // the operator call on the host that this work belongs to
};

// What was recorded since a profiler started; filled by all threads.
struct Recording {
  std::atomic<bool> on{false};
  std::mutex mutex;
  std::vector<Activity> activities;
};

Recording& recording() {
  static auto* instance = new Recording();
  return *instance;
}

// The operator calls this thread is in, as kineto numbers them.
thread_local std::vector<uint64_t> correlations;

int64_t now() {
  return libkineto::timeSinceEpoch(std::chrono::system_clock::now());
}

// One profile, from start to stop.
class Session final : public libkineto::IActivityProfilerSession {
 public:
  void start() override {
    queue::finish_all();  // what was launched before is no part of it
    std::lock_guard<std::mutex> lock(recording().mutex);
    recording().activities.clear();
    recording().on.store(true);
    status_ = libkineto::TraceStatus::RECORDING;
  }

  void stop() override {
    queue::finish_all();
    recording().on.store(false);
    status_ = libkineto::TraceStatus::PROCESSING;
  }

  std::vector<std::string> errors() override { return {}; }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](int32_t) { return nullptr; }, 0, now());
  }

  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t begin,
                    int64_t end) override {
    buffer_->span = libkineto::TraceSpan(begin, end, "neuron");
    std::lock_guard<std::mutex> lock(recording().mutex);
    for (const Activity& activity : recording().activities) {
      buffer_->emplace_activity(buffer_->span, ActivityType::CONCURRENT_KERNEL, *activity.name);
      auto& event = *buffer_->activities.back();
      event.startTime = activity.started;
      event.endTime = activity.ended;
      event.device = activity.device;
      event.id = activity.correlation;
      event.linked = activity.correlation == 0 ? nullptr : linked(activity.correlation);
      logger.handleGenericActivity(event);
    }
    buffer_->span.opCount = static_cast<int>(recording().activities.size());
    recording().activities.clear();
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override { return nullptr; }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer_); }

  void pushCorrelationId(uint64_t id) override { correlations.push_back(id); }
  void popCorrelationId() override {
    if (!correlations.empty()) {
      correlations.pop_back();
    }
  }

 private:
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override { return name_; }
  const std::set<ActivityType>& availableActivities() const override { return activities_; }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>& wanted,
                                                                 const libkineto::Config&) override {
    return wanted.contains(ActivityType::CONCURRENT_KERNEL) ? std::make_unique<Session>() : nullptr;
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t, int64_t, const std::set<ActivityType>& wanted,
                                                                 const libkineto::Config& config) override {
    return configure(wanted, config);
  }

 private:
  const std::string name_ = "neuron";
  const std::set<ActivityType> activities_{ActivityType::CONCURRENT_KERNEL};
};

// Past torch's PrivateUse1ProfilerRegistry, whose header does not compile against an installed torch.
const bool registered = [] {
  libkineto::api().registerProfilerFactory([] { return std::make_unique<Profiler>(); });
  return true;
}();

}  // namespace

int32_t current_correlation() {
  return correlations.empty() ? 0 : static_cast<int32_t>(correlations.back());
}

DeviceActivity::DeviceActivity(const std::string& name, c10::DeviceIndex device, int32_t correlation)
    : name_(name), device_(device), correlation_(correlation), started_(recording().on.load(std::memory_order_relaxed) ? now() : 0) {}

void DeviceActivity::finish() const {
  if (started_ == 0) {
    return;
  }
  std::lock_guard<std::mutex> lock(recording().mutex);
  recording().activities.push_back({&name_, started_, now(), device_, correlation_});
}

}  // namespace neuron
