#include "guest/limiter/memory/reclaim_hint.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

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

// A longer list of mappings is cut.
constexpr std::size_t kMostText = 16 << 20;

// Read at once: a program may close descriptors it does not know and reuse the number.
std::string_view read_own(char* text) {
  const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  std::size_t size = 0;
  for (ssize_t got = 1; maps >= 0 && got > 0; size += static_cast<std::size_t>(got))
    got = std::max<ssize_t>(::read(maps, text + size, kMostText - size), 0);
  if (maps >= 0) ::close(maps);
  return {text, size};
}

// Takes a word and the character behind it off the line.
std::string_view word(std::string_view& line, char end) {
  std::size_t length = 0;
  while (length < line.size() && line[length] != end) ++length;
  const std::string_view taken(line.data(), length);
  line.remove_prefix(std::min(length + 1, line.size()));
  return taken;
}

std::uint64_t hexadecimal(std::string_view digits) {
  std::uint64_t value = 0;
  for (const char c : digits) value = value * 16 + static_cast<std::uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
  return value;
}

}  // namespace

bool next_anonymous(std::string_view& text, MemoryRange& range) {
  while (text.find('\n') != std::string_view::npos) {
    std::string_view line = word(text, '\n');
    range.from = hexadecimal(word(line, '-'));
    range.to = hexadecimal(word(line, ' '));
    const std::string_view permissions = word(line, ' ');
    word(line, ' '), word(line, ' ');  // offset and device
    const bool private_data = permissions.starts_with("rw") && permissions.ends_with('p');
    if (private_data && word(line, ' ') == "0") return true;  // no inode: no file
  }
  return false;
}

void hint_reclaim(bool (*goes_on)()) {
  const bare::KeepErrno keep_errno;
  const bare::MappedMemory memory(kMostText);
  if (memory.at() == nullptr) return;
  std::string_view text = read_own(static_cast<char*>(memory.at()));
  for (MemoryRange range; next_anonymous(text, range);) {
    if (range.to < range.from + kLeast) continue;
    // The kernel refuses a mapping that is gone, locked or of a device; it then stays unchanged.
    for (std::uint64_t at = range.from; at < range.to && goes_on(); at += kPiece)
      ::madvise(reinterpret_cast<void*>(at), std::min(kPiece, range.to - at), kCold);
  }
}

}  // namespace headgate::limiter
