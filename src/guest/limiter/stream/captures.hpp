// Stream captures of the process: nothing of ours may enter one, nor break one.
#pragma once

#include <atomic>
#include <cstdint>

#include "guest/abi/cuda.hpp"

namespace headgate::limiter {

// Captures of this process that have begun and not ended. Any thread.
extern std::atomic<std::uint32_t> open_captures;
inline bool any_capture() { return open_captures.load(std::memory_order_acquire) != 0; }

// What is sent to this stream now becomes nodes of a graph, or breaks a capture by itself: it is the driver's alone. A
// load while the process has no capture; else asks the driver, which never breaks one.
[[nodiscard]] bool capturing(abi::CUstream stream);

// Called before and after the driver's own begin and end. A capture ends on the stream where it began, so only that
// stream is remembered. It is known by its handle: a driver's cuStreamGetId breaks a capture of the stream that it is
// asked for. After capture_begins() the caller makes threads look again (move_lane_epoch()).
void capture_begins();
void capture_begun(abi::CUstream stream, abi::CUresult result);
void capture_may_have_ended(abi::CUstream stream);
// After a stream was destroyed: a capture that began there is over. Its handle may name another stream from now on.
void capture_stream_gone(abi::CUstream stream);
void captures_of_context_gone(abi::CUcontext context);
void forget_captures_after_fork();

// While it lives, questions of the calling thread break no capture (but on a stream or event that is in one).
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
