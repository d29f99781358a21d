// Memory that left the card is in the program's address space. Tells the kernel that it will not be used soon, so that
// it is swapped first when the host needs memory.
#pragma once

#include <cstdint>
#include <string_view>

namespace headgate::limiter {

// Applies MADV_COLD (Linux 5.4) to every private, writable, anonymous mapping: the driver does not report which of them
// hold the memory. This loses and moves nothing; touched memory is hot again. Does nothing without /proc or on an older
// kernel. Works in pieces, since a call keeps other threads from mapping memory, and only while `goes_on` returns true.
void hint_reclaim(bool (*goes_on)());

// Parses /proc/PID/maps (proc(5)) in pieces of any size. Pure.
class ReclaimRanges {
 public:
  struct Range {
    std::uint64_t from = 0, to = 0;
  };
  // Consumes `text` up to the end of the next matching mapping. Returns false if there is none.
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
