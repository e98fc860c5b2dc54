#pragma once

// What has to happen before the interpreter goes away.

#include <chrono>

namespace neuron {

// Waits until autograd's threads have let go of every backward that has returned, at most for `patience`. False when
// a thread was still busy then. Call it without the GIL, and only where those threads have been started.
bool settle_autograd_threads(std::chrono::milliseconds patience);

}  // namespace neuron
