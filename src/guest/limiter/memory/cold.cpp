#include "guest/limiter/memory/cold.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace headgate::limiter {
namespace {

constexpr int kCold = 20;  // MADV_COLD, asm-generic/mman-common.h; older C libraries lack it
// Smaller ones are not worth a system call.
constexpr std::uint64_t kLeast = 1 << 20;

int hexadecimal(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

void ColdRanges::take(char c) {
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

bool ColdRanges::next(std::string_view& text, Range& range) {
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

void advise_cold() {
  const int saved = errno;
  const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  char piece[4096];
  ColdRanges ranges;
  ColdRanges::Range range;
  for (ssize_t got; maps >= 0 && (got = ::read(maps, piece, sizeof piece)) > 0;) {
    std::string_view text(piece, static_cast<std::size_t>(got));
    while (ranges.next(text, range)) {
      // One that has gone meanwhile, is locked into memory or is the device's is refused, and stays as it is.
      if (range.to >= range.from + kLeast) ::madvise(reinterpret_cast<void*>(range.from), range.to - range.from, kCold);
    }
  }
  if (maps >= 0) ::close(maps);
  errno = saved;
}

}  // namespace headgate::limiter
