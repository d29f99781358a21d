// What a program gets if it requests more than its share has. A fatal error of the driver takes precedence: a context
// that ended in an error, a lost device, or a driver that is shut down or not initialised, whatever the share has left.
#pragma once

#include <atomic>

#include "guest/abi/cuda.hpp"

namespace headgate::limiter {

// cuda.h: errors that every later call of the context (or process) returns too.
constexpr bool is_final(abi::CUresult answer) {
  const auto code = static_cast<unsigned>(answer);
  return code == 3 || code == 4 || code == 46 || code == 214 || code == 700 || code == 702 || code == 709 ||
         (code >= 710 && code <= 719 && code != 711 && code != 712 && code != 713);
}

extern std::atomic<bool> final_answer_seen;

// Call for every driver result. After a final error the next refusal asks the driver; else refusals make no call.
inline abi::CUresult noted(abi::CUresult answer) {
  if (answer != abi::CUDA_SUCCESS && is_final(answer)) [[unlikely]]
    final_answer_seen.store(true, std::memory_order_relaxed);
  return answer;
}

// Returns CUDA_ERROR_OUT_OF_MEMORY, or the driver's final error for the calling thread.
abi::CUresult refusal();

}  // namespace headgate::limiter
