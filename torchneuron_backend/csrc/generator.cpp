#include "generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GeneratorImpl.h>

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "device.h"

namespace neuron {
namespace {

class GeneratorImpl final : public c10::GeneratorImpl {
 public:
  GeneratorImpl(c10::DeviceIndex index, at::Generator host)
      : c10::GeneratorImpl(c10::Device(kNeuron, index), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        host_(std::move(host)) {}

  void set_current_seed(uint64_t seed) override { host_.set_current_seed(seed); }
  // The engine has no offset: its state holds all. Zero is what torch writes into a pickle, and reads from it.
  void set_offset(uint64_t offset) override {
    TORCH_CHECK(offset == 0, "The generator of a neuron device has no offset; save and restore its state instead.");
  }
  uint64_t get_offset() const override { return 0; }
  uint64_t current_seed() const override { return host_.current_seed(); }
  uint64_t seed() override { return host_.seed(); }
  void set_state(const c10::TensorImpl& state) override { host_.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return host_.unsafeGetGeneratorImpl()->get_state();
  }

  at::Generator host() const { return host_; }

 private:
  GeneratorImpl* clone_impl() const override { return new GeneratorImpl(device().index(), host_.clone()); }

  mutable at::Generator host_;
};

std::mutex& borrow_mutex() {
  static auto* mutex = new std::mutex();
  return *mutex;
}

void exchange(at::CPUGeneratorImpl& a, at::CPUGeneratorImpl& b) {
  auto engine = a.engine();
  auto next_float = a.next_float_normal_sample();
  auto next_double = a.next_double_normal_sample();
  a.set_engine(b.engine());
  a.set_next_float_normal_sample(b.next_float_normal_sample());
  a.set_next_double_normal_sample(b.next_double_normal_sample());
  b.set_engine(engine);
  b.set_next_float_normal_sample(next_float);
  b.set_next_double_normal_sample(next_double);
}

void exchange_with_host_default(c10::DeviceIndex index) {
  at::Generator device = host_generator(default_generator(index));
  at::Generator host = at::detail::getDefaultCPUGenerator();
  std::scoped_lock lock(device.mutex(), host.mutex());
  exchange(*device.get<at::CPUGeneratorImpl>(), *host.get<at::CPUGeneratorImpl>());
}

}  // namespace

at::Generator make_generator(c10::DeviceIndex index) {
  return at::make_generator<GeneratorImpl>(checked_index(index), at::detail::createCPUGenerator());
}

const at::Generator& default_generator(c10::DeviceIndex index) {
  static auto* generators = [] {
    auto* made = new std::vector<at::Generator>();
    for (c10::DeviceIndex i = 0; i < device_count(); ++i) {
      made->push_back(make_generator(i));
      made->back().seed();
    }
    return made;
  }();
  return (*generators)[static_cast<size_t>(checked_index(index))];
}

at::Generator host_generator(const at::Generator& device_generator) {
  return device_generator.get<GeneratorImpl>()->host();
}

BorrowHostStream::BorrowHostStream(c10::DeviceIndex index) : index_(index) {
  borrow_mutex().lock();
  exchange_with_host_default(index_);
}

BorrowHostStream::~BorrowHostStream() {
  exchange_with_host_default(index_);
  borrow_mutex().unlock();
}

}  // namespace neuron
