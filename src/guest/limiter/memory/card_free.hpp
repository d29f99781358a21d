// The card's free memory, which shows what a call took where NVML does not tell it of this process.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headgate::limiter {

// Free memory before a call. Asked of CUDA in the current context or another of this process on that GPU; else of NVML,
// which needs no context.
class CardFree {
 public:
  CardFree() = default;  // asks nothing
  explicit CardFree(std::uint32_t device_index);
  // Returns by how much it has fallen since, asked the same way; 0 if it has not or that is unknown.
  [[nodiscard]] std::uint64_t decrease() const;

 private:
  std::uint32_t device_index_ = 0;
  bool by_nvml_ = false;
  std::size_t before_ = SIZE_MAX;
};

}  // namespace headgate::limiter
