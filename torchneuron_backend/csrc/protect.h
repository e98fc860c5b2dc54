#pragma once

// Protect mode: device memory that only device work may touch.
//
// With TORCHNEURON_PROTECT=1 every block lies in pages of its own, which the process cannot read or write. A kernel, a
// copy or a compiled program opens the blocks of its arguments for as long as it runs; any other access is a SIGSEGV.

#include <c10/core/Storage.h>

#include <cstddef>

namespace neuron {

// Whether the mode is on: TORCHNEURON_PROTECT, read once. Throws where that is neither 0 nor 1.
bool protecting();

// A closed block of `bytes` (a multiple of kAlignment), or null where the system has none. It ends where its last
// page ends, and the page after it never opens.
void* map_block(size_t bytes);
void unmap_block(void* address);

// A host storage in a block of its own with the bytes of `host`.
c10::Storage moved_into_block(const c10::Storage& host);

// Opens the block that `address` lies in, as long as this lives; closed again by the last of several, in any thread.
// An address in no block, and every address when the mode is off, opens nothing.
class Opening {
 public:
  explicit Opening(const void* address);
  ~Opening();
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;

 private:
  void* block_ = nullptr;
};

}  // namespace neuron
