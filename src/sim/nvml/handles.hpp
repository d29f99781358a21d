// Objects that a program creates and destroys through handles. Invented or destroyed handles are detected. Under the
// library's mutex.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "guest/abi/nvml.hpp"

namespace headgate::sim::nvml {

template <typename Object>
class Handles {
 public:
  abi::nvmlReturn_t make(Object** out) {
    if (out == nullptr) return abi::NVML_ERROR_INVALID_ARGUMENT;
    *out = alive_.emplace_back(std::make_unique<Object>()).get();
    return abi::NVML_SUCCESS;
  }
  [[nodiscard]] bool knows(const Object* handle) const {
    return std::ranges::any_of(alive_, [handle](const auto& one) { return one.get() == handle; });
  }
  abi::nvmlReturn_t end(const Object* handle) {
    const auto ended = std::erase_if(alive_, [handle](const auto& one) { return one.get() == handle; });
    return ended != 0 ? abi::NVML_SUCCESS : abi::NVML_ERROR_INVALID_ARGUMENT;
  }

 private:
  std::vector<std::unique_ptr<Object>> alive_;
};

}  // namespace headgate::sim::nvml
