// How long copies of this process are under way: from an event before each copy call, in its own stream, where the copy
// is ordered anyway, to one after it. A call that waits for its copy ends with its return: an event behind it would
// make a stream busy that the program was told is idle. The union of these stretches is the share's copy_ns: at least
// what the copy engines worked, and the calls' own time, in which a driver stages pageable memory. Copies pass no gate.
#pragma once

#include <cstdint>

#include "guest/abi/cuda.hpp"

namespace headgate::limiter {

struct StreamMeter;
struct ContextMeter;

// Around the driver's call of a copy on that stream, by the calling thread. Sends nothing into a capture.
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

// The settler's: measures what has ended. When to look again; kNothingOpen: when there is a copy.
std::int64_t settle_copies(std::int64_t now_ns);
// Under the settler's lock: the context dies, its copies are measured no more.
void forget_copies(const ContextMeter& context);
void copies_reset_after_fork();

}  // namespace headgate::limiter
