// Measures how long this process's copies are in progress, by an event before each copy call and one after it in the
// same stream, where the copy is ordered anyway. A synchronous copy ends when its call returns: an event behind it
// would make a stream busy that the program knows is idle. The union is the share's copy_ns: at least the copy engines'
// work, and the calls' time, in which a driver stages pageable memory. Copies do not pass the gate.
#pragma once

#include <cstdint>

#include "guest/abi/cuda.hpp"

namespace headgate::limiter {

struct StreamMeter;
struct ContextMeter;

// For use around a driver's copy call on that stream, in the calling thread. Adds nothing to a capture.
class CopyBracket {
 public:
  CopyBracket(abi::CUstream stream, bool waits);
  ~CopyBracket();
  CopyBracket(const CopyBracket&) = delete;
  CopyBracket& operator=(const CopyBracket&) = delete;

 private:
  abi::CUstream handle_;
  StreamMeter* stream_ = nullptr;  // null: not measured
  abi::CUevent start_ = nullptr, end_ = nullptr;
  std::int64_t sent_ns_ = 0;
  bool waits_;
};

// Measures copies that have ended; only the settler calls it. Returns when to look again; kNothingOpen: once there is a
// copy again.
std::int64_t settle_copies(std::int64_t now_ns);
// Call under the settler's lock when the context is destroyed: stops measuring its copies.
void forget_copies(const ContextMeter& context);
void copies_reset_after_fork();

}  // namespace headgate::limiter
