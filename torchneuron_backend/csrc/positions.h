#pragma once

#include <c10/util/SmallVector.h>

#include <optional>
#include <unordered_map>
#include <utility>

namespace neuron {

// Where in a list something is, by its address. Calls have a handful of tensors, optimizers' calls thousands:
// few are searched in order, many by hash.
class Positions {
 public:
  std::optional<size_t> find(const void* key) const {
    if (!hashed_.empty()) {
      const auto found = hashed_.find(key);
      return found == hashed_.end() ? std::nullopt : std::optional(found->second);
    }
    for (const auto& [other, position] : few_) {
      if (other == key) {
        return position;
      }
    }
    return std::nullopt;
  }

  void insert(const void* key, size_t position) {
    if (hashed_.empty() && few_.size() < kFew) {
      few_.emplace_back(key, position);
      return;
    }
    if (hashed_.empty()) {
      hashed_.insert(few_.begin(), few_.end());
    }
    hashed_.emplace(key, position);
  }

 private:
  static constexpr size_t kFew = 12;
  c10::SmallVector<std::pair<const void*, size_t>, kFew> few_;
  std::unordered_map<const void*, size_t> hashed_;
};

}  // namespace neuron
