// Queries about a stream, and about all work that was sent (asked by memory/, answered by compute/).
#pragma once

#include <atomic>
#include <cstdint>

#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/stream/captures.hpp"

namespace headgate::limiter {

// Returns whether the stream is being captured: its work goes into a graph and uses no memory now.
inline bool is_captured(abi::CUstream stream) {
  if (!any_capture() || driver.cuStreamIsCapturing == nullptr) return false;
  abi::CUstreamCaptureStatus status = abi::CU_STREAM_CAPTURE_STATUS_NONE;
  return driver.cuStreamIsCapturing(stream, &status) == abi::CUDA_SUCCESS &&
         status != abi::CU_STREAM_CAPTURE_STATUS_NONE;
}

// Returns false for an invalid stream. Queries the priority because cuStreamGetFlags would break a capture.
inline bool is_stream(abi::CUstream stream) {
  int priority = 0;
  return reinterpret_cast<std::uintptr_t>(stream) <= 2 ||
         forward(driver.cuStreamGetPriority, stream, &priority) == abi::CUDA_SUCCESS;
}

// Set by compute/ when it starts metering; null until then. Stays set in a forked child.
inline constinit std::atomic<bool (*)()> unfinished_work{nullptr};

// Returns true if metered work is not known to have ended. False before any work was metered. Any thread.
inline bool is_work_unfinished() {
  const auto ask = unfinished_work.load(std::memory_order_acquire);
  return ask != nullptr && ask();
}

}  // namespace headgate::limiter
