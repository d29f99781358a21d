// What left the card lies in its program's own memory. The kernel is told that nobody will want it soon, so that this
// goes to swap before anything else when the host needs room.
#pragma once

#include <cstdint>
#include <string_view>

namespace headgate::limiter {

// MADV_COLD (Linux 5.4) on every private, writable mapping without a file: which of them the driver has put the memory
// into, it does not tell. Nothing is lost or moved by it; what the program touches is warm again. Without /proc, or on
// an older kernel, nothing. In pieces, for a call keeps other threads from mapping memory, and only for as long as
// `goes_on` says so.
void hint_reclaim(bool (*goes_on)());

// Reads /proc/PID/maps (proc(5)) in pieces of any size. Pure.
class ReclaimRanges {
 public:
  struct Range {
    std::uint64_t from = 0, to = 0;
  };
  // Takes bytes off the front of `text`, to the end of the next mapping that is meant. False where there is none in it.
  bool next(std::string_view& text, Range& range);

 private:
  enum class Field { from, to, permissions, offset, device, inode, rest };
  void take(char c);

  Field field_ = Field::from;
  Range range_;
  unsigned place_ = 0;  // in the permissions
  bool meant_ = true;
};

}  // namespace headgate::limiter
