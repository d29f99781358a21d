// Stream captures of the process: nothing of ours may enter one, nor break one.
#pragma once

#include <cstdint>

#include "guest/abi/cuda.hpp"

namespace headgate::limiter {

// What is sent to this stream now becomes nodes of a graph, or breaks a capture by itself: it is the driver's alone. A load
// while the process has no capture; else asks the driver, which never breaks one.
[[nodiscard]] bool capturing(abi::CUstream stream);

// Round the driver's own begin and end. A capture ends where it began, so only that stream is remembered: by its id, and in
// the context that is current.
void capture_begins();
void capture_begun(abi::CUstream stream, abi::CUresult result);
void capture_may_have_ended(abi::CUstream stream);
// Before a stream is destroyed: its number. After it was: a capture that began there is over.
[[nodiscard]] std::uint64_t stream_number(abi::CUstream stream);
void capture_stream_gone(std::uint64_t number);
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
