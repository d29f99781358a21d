#include "guest/limiter/memory/refusal.hpp"

#include "guest/limiter/route/forward.hpp"

namespace headgate::limiter {

constinit std::atomic<bool> final_answer_seen{false};

abi::CUresult refusal() {
  if (!final_answer_seen.load(std::memory_order_relaxed)) return abi::CUDA_ERROR_OUT_OF_MEMORY;
  std::size_t free = 0, total = 0;
  const abi::CUresult own = forward(driver.cuMemGetInfo_v2, &free, &total);
  return is_final(own) ? own : abi::CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace headgate::limiter
