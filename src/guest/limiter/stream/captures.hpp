// Stream captures of the process. Our own work must not enter or break one.
#pragma once

#include <atomic>
#include <cstdint>

#include "guest/abi/cuda.hpp"

namespace headgate::limiter {

// Captures of this process in progress. Any thread.
extern std::atomic<std::uint32_t> open_captures;
inline bool any_capture() { return open_captures.load(std::memory_order_acquire) != 0; }

// Returns whether work sent to this stream now becomes graph nodes or breaks a capture: leave it to the driver. One
// load if the process has no capture; else asks the driver with a call that never breaks one.
[[nodiscard]] bool capturing(abi::CUstream stream);

// Call before and after the driver's begin and end. A capture ends on the stream where it began, so only that stream is
// recorded, by its handle: cuStreamGetId breaks a capture of the stream it is called for. After capture_begins() the
// caller makes threads look again (move_lane_epoch()).
void capture_begins();
void capture_begun(abi::CUstream stream, abi::CUresult result);
void capture_may_have_ended(abi::CUstream stream);
// Call after a stream was destroyed: ends a capture that began on it. The driver may now reuse the handle.
void capture_stream_gone(abi::CUstream stream);
void captures_of_context_gone(abi::CUcontext context);
void forget_captures_after_fork();

// While it exists, queries by this thread break no capture (except on a stream or event that is in one).
class RelaxedQuestions {
 public:
  RelaxedQuestions();
  ~RelaxedQuestions();
  RelaxedQuestions(const RelaxedQuestions&) = delete;
  RelaxedQuestions& operator=(const RelaxedQuestions&) = delete;

 private:
  abi::CUstreamCaptureMode mode_ = abi::CU_STREAM_CAPTURE_MODE_RELAXED;
  bool changed_ = false;
};

}  // namespace headgate::limiter
