#include "protect.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include "allocator.h"

namespace neuron {
namespace {

struct Mapping {
  char* pages;    // where the first page starts
  size_t opened;  // bytes of the pages that can be opened; one more page follows
  char* address;  // where the block starts
  size_t bytes;   // of the block
  size_t openings = 0;
  bool unmapped = false;  // given back while open: the pages go when the last opening does
};

// Live blocks by the address of their first page. Leaked: tensors may outlive static destruction.
struct Mappings {
  std::mutex mutex;
  std::map<const char*, Mapping> by_pages;

  // The mapping, its unopenable page included, that `address` lies in.
  Mapping* find(const void* address) {
    auto it = by_pages.upper_bound(static_cast<const char*>(address));
    if (it == by_pages.begin()) {
      return nullptr;
    }
    Mapping& mapping = std::prev(it)->second;
    return static_cast<const char*>(address) < mapping.pages + mapping.opened + page_size() ? &mapping : nullptr;
  }

  void drop(Mapping& mapping) {
    munmap(mapping.pages, mapping.opened + page_size());
    by_pages.erase(mapping.pages);
  }

  static size_t page_size() {
    static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return size;
  }
};

Mappings& mappings() {
  static auto* instance = new Mappings();
  return *instance;
}

void set_access(const Mapping& mapping, int access) {
  TORCH_CHECK(mprotect(mapping.pages, mapping.opened, access) == 0, "protect mode could not ",
              access == PROT_NONE ? "close" : "open", " ", mapping.opened, " bytes of device memory (",
              std::strerror(errno), ").");
}

// A line for stderr, put together without allocating: a signal handler may do little else.
class Line {
 public:
  void add(std::string_view text) {
    const size_t length = std::min(text.size(), text_.size() - length_);
    std::memcpy(text_.data() + length_, text.data(), length);
    length_ += length;
  }
  void add(uintptr_t number, int base) {
    const auto end = std::to_chars(text_.data() + length_, text_.data() + text_.size(), number, base).ptr;
    length_ = static_cast<size_t>(end - text_.data());
  }
  void write() const {
    if (::write(STDERR_FILENO, text_.data(), length_) < 0) {
      return;  // nobody is listening
    }
  }

 private:
  std::array<char, 256> text_{};
  size_t length_ = 0;
};

struct sigaction handler_before;

void explain(const void* address) {
  const std::unique_lock lock(mappings().mutex, std::try_to_lock);
  const Mapping* mapping = lock.owns_lock() ? mappings().find(address) : nullptr;
  if (mapping == nullptr) {
    return;
  }
  const auto offset = reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(mapping->address);
  const bool beyond = static_cast<const char*>(address) >= mapping->pages + mapping->opened;
  Line line;
  line.add(beyond ? "neuron: an access beyond the end of device memory, at 0x"
                  : "neuron: host code touched device memory outside device work, at 0x");
  line.add(reinterpret_cast<uintptr_t>(address), 16);
  line.add(": byte ");
  line.add(offset, 10);
  line.add(" of a block of ");
  line.add(mapping->bytes, 10);
  line.add(" (TORCHNEURON_PROTECT=1).\n");
  line.write();
}

// Says what happened and leaves the rest to whoever handled SIGSEGV before: the access is made again on return.
void on_segv(int, siginfo_t* info, void*) {
  explain(info->si_addr);
  sigaction(SIGSEGV, &handler_before, nullptr);
}

bool read_variable() {
  const char* text = std::getenv("TORCHNEURON_PROTECT");
  const std::string_view value = text == nullptr ? "" : text;
  TORCH_CHECK(value.empty() || value == "0" || value == "1", "TORCHNEURON_PROTECT is '", value, "', not 0 or 1.");
  if (value != "1") {
    return false;
  }
  struct sigaction action{};
  action.sa_sigaction = &on_segv;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &handler_before);
  return true;
}

}  // namespace

bool protecting() {
  static const bool on = read_variable();
  return on;
}

void* map_block(size_t bytes) {
  const size_t page = Mappings::page_size();
  const size_t opened = (bytes + page - 1) / page * page;
  void* pages = mmap(nullptr, opened + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) {
    return nullptr;
  }
  Mapping mapping{static_cast<char*>(pages), opened, static_cast<char*>(pages) + opened - bytes, bytes};
  const std::lock_guard lock(mappings().mutex);
  return mappings().by_pages.emplace(mapping.pages, mapping).first->second.address;
}

void unmap_block(void* address) {
  const std::lock_guard lock(mappings().mutex);
  Mapping& mapping = *mappings().find(address);
  if (mapping.openings > 0) {
    mapping.unmapped = true;
  } else {
    mappings().drop(mapping);
  }
}

c10::Storage moved_into_block(const c10::Storage& host) {
  const size_t bytes = host.nbytes();
  void* block = map_block((bytes + kAlignment - 1) / kAlignment * kAlignment);
  TORCH_CHECK_WITH(OutOfMemoryError, block != nullptr, "protect mode could not map ", bytes, " bytes of device memory.");
  c10::DataPtr pointer(block, block, &unmap_block, c10::Device(c10::kCPU));
  {
    const Opening opening(block);
    std::memcpy(block, host.data(), bytes);
  }
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                            std::move(pointer), c10::GetCPUAllocator(), false));
}

Opening::Opening(const void* address) {
  if (!protecting()) {
    return;
  }
  const std::lock_guard lock(mappings().mutex);
  Mapping* mapping = mappings().find(address);
  if (mapping == nullptr) {
    return;
  }
  if (mapping->openings == 0) {
    set_access(*mapping, PROT_READ | PROT_WRITE);
  }
  ++mapping->openings;
  block_ = mapping->pages;
}

// Ends the process where memory cannot be closed again: an open block would prove nothing.
Opening::~Opening() {
  if (block_ == nullptr) {
    return;
  }
  const std::lock_guard lock(mappings().mutex);
  Mapping& mapping = *mappings().find(block_);
  if (--mapping.openings > 0) {
    return;
  }
  if (mapping.unmapped) {
    mappings().drop(mapping);
  } else {
    set_access(mapping, PROT_NONE);
  }
}

}  // namespace neuron
