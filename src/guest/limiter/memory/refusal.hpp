// What a program is told that asks for more than its share has. An answer of the driver's own goes before ours: a
// context that has ended in an error, a device that is lost, a driver that is gone or not there yet say so whatever the
// share has left.
#pragma once

#include <atomic>

#include "guest/abi/cuda.hpp"

namespace headgate::limiter {

// cuda.h: answers that every later call of the context (or process) gets too.
constexpr bool is_final(abi::CUresult answer) {
  const auto code = static_cast<unsigned>(answer);
  return code == 3 || code == 4 || code == 46 || code == 214 || code == 700 || code == 702 || code == 709 ||
         (code >= 710 && code <= 719 && code != 711 && code != 712 && code != 713);
}

extern std::atomic<bool> final_answer_seen;

// For what the driver answered to any call. The next refusal asks it first; until then refusals cost no call.
inline abi::CUresult noted(abi::CUresult answer) {
  if (answer != abi::CUDA_SUCCESS && is_final(answer)) [[unlikely]]
    final_answer_seen.store(true, std::memory_order_relaxed);
  return answer;
}

// CUDA_ERROR_OUT_OF_MEMORY, or the driver's final answer to the calling thread.
abi::CUresult refusal();

}  // namespace headgate::limiter
