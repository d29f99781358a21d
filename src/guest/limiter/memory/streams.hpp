// What the memory room asks about streams.
#pragma once

#include <cstdint>

#include "guest/limiter/compute/compute.hpp"
#include "guest/limiter/route/forward.hpp"

namespace headgate::limiter {

// What such a stream is sent becomes a graph's, and takes nothing now.
inline bool is_captured(abi::CUstream stream) {
  if (!compute_captures() || driver.cuStreamIsCapturing == nullptr) return false;
  abi::CUstreamCaptureStatus status = abi::CU_STREAM_CAPTURE_STATUS_NONE;
  return driver.cuStreamIsCapturing(stream, &status) == abi::CUDA_SUCCESS &&
         status != abi::CU_STREAM_CAPTURE_STATUS_NONE;
}

// Else the driver has an error of its own to answer.
inline bool is_stream(abi::CUstream stream) {
  unsigned flags = 0;
  return reinterpret_cast<std::uintptr_t>(stream) <= 2 ||
         forward(driver.cuStreamGetFlags, stream, &flags) == abi::CUDA_SUCCESS;
}

}  // namespace headgate::limiter
