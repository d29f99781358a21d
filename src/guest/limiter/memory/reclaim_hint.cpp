#include "guest/limiter/memory/reclaim_hint.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "guest/bare/keep_errno.hpp"
#include "guest/bare/scratch.hpp"

namespace headgate::limiter {
namespace {

constexpr int kCold = 20;  // MADV_COLD, asm-generic/mman-common.h; older C libraries lack it
// Smaller mappings are not worth a system call.
constexpr std::uint64_t kLeast = 1 << 20;

// With pieces of this size, another thread's mmap() waited at most 8.5 ms. One call for 2 GiB took 30 ms, and made it
// wait 23 ms.
constexpr std::uint64_t kPiece = 32 << 20;

// Read at once: a program may close descriptors it does not know and reuse the number.
struct Found {
  std::uint32_t count;
  ReclaimRanges::Range ranges[4096];
};
void read_own(Found& found) {
  const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (maps < 0) return;
  char piece[4096];
  ReclaimRanges ranges;
  ReclaimRanges::Range range;
  for (ssize_t got; (got = ::read(maps, piece, sizeof piece)) > 0;) {
    std::string_view text(piece, static_cast<std::size_t>(got));
    while (ranges.next(text, range))
      if (range.to >= range.from + kLeast && found.count < std::size(found.ranges)) found.ranges[found.count++] = range;
  }
  ::close(maps);
}

int hexadecimal(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

void ReclaimRanges::take(char c) {
  const auto enter = [this, c](Field next) {
    if (c == ' ') field_ = next;
  };
  const auto digit = static_cast<std::uint64_t>(hexadecimal(c));
  switch (field_) {
    case Field::from:
      if (c == '-') field_ = Field::to;
      else range_.from = range_.from * 16 + digit;
      break;
    case Field::to:
      if (c == ' ') field_ = Field::permissions;
      else range_.to = range_.to * 16 + digit;
      break;
    case Field::permissions:
      if (place_ < 4 && place_ != 2) meant_ &= c == "rw-p"[place_];
      ++place_;
      enter(Field::offset);
      break;
    case Field::offset: enter(Field::device); break;
    case Field::device: enter(Field::inode); break;
    case Field::inode:
      meant_ &= c == '0' || c == ' ';
      enter(Field::rest);
      break;
    case Field::rest: break;
  }
}

bool ReclaimRanges::next(std::string_view& text, Range& range) {
  while (!text.empty()) {
    const char c = text.front();
    text.remove_prefix(1);
    if (c != '\n') {
      take(c);
      continue;
    }
    const bool meant = meant_ && field_ >= Field::inode;
    range = range_;
    *this = {};
    if (meant) return true;
  }
  return false;
}

void hint_reclaim(bool (*goes_on)()) {
  const bare::KeepErrno keep_errno;
  const bare::Scratch<Found> found;
  if (found) read_own(*found);
  for (std::uint32_t i = 0; found && i < (*found).count; ++i) {
    const ReclaimRanges::Range& range = (*found).ranges[i];
    // The kernel refuses a mapping that is gone, locked or of a device; it then stays unchanged.
    for (std::uint64_t at = range.from; at < range.to && goes_on(); at += kPiece)
      ::madvise(reinterpret_cast<void*>(at), std::min(kPiece, range.to - at), kCold);
  }
}

}  // namespace headgate::limiter
