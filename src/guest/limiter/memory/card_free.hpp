// The card's free memory, which shows what a call took where NVML does not tell it of this process.
#pragma once

#include <cstddef>
#include <cstdint>

#include "guest/abi/cuda.hpp"

namespace headgate::limiter {

// Free memory before a call. Asked of CUDA in the current context or another of this process on that GPU; else of NVML,
// which needs no context.
class CardFree {
 public:
  CardFree() = default;  // makes no query; decrease() returns 0
  explicit CardFree(std::uint32_t device_index);
  [[nodiscard]] bool is_known() const { return before_ != SIZE_MAX; }
  // Returns by how much it has fallen or risen since, asked the same way; 0 if it has not or that is unknown.
  [[nodiscard]] std::uint64_t decrease() const;
  [[nodiscard]] std::uint64_t increase() const;

 private:
  [[nodiscard]] std::size_t now() const;

  std::uint32_t device_index_ = 0;
  bool by_nvml_ = false;
  std::size_t before_ = SIZE_MAX;
};

// What a context took and gave back: one that was created and destroyed for this, where the process has another already.
struct ContextTrial {
  std::uint64_t taken_bytes = 0, returned_bytes = 0;  // 0: unknown
};
ContextTrial try_context(std::uint32_t device_index, abi::CUdevice device);

}  // namespace headgate::limiter
