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

struct MemoryRange {
  std::uint64_t from = 0, to = 0;
};
// Takes lines of /proc/PID/maps (proc(5)) off `text`, up to the next such mapping. Returns false if there is none. A
// cut line is no mapping. Pure.
bool next_anonymous(std::string_view& text, MemoryRange& range);

}  // namespace headgate::limiter
