#include "guest/bare/clock.hpp"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace headgate::bare {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kMaxSeconds = INT64_MAX / kSecond / 2;
constexpr std::int64_t kTickNs = 10'000'000;  // USER_HZ is 100 on every architecture that has a driver
constexpr std::int64_t kNotLearnt = INT64_MIN;
constexpr std::int64_t kUnknown = INT64_MAX;
constexpr std::string_view kInitialNamespace =
    "time:[4026531834]";  // PROC_TIME_INIT_INO, linux/nsfs.h: fixed since 5.6

// Threads that read the offsets at the same time store the same values. If a file could not be opened for lack of
// descriptors, the next call tries again.
constinit std::atomic<std::int64_t> monotonic_offset{kNotLearnt};
constinit std::atomic<std::int64_t> boottime_offset{kNotLearnt};

class Words {
 public:
  explicit Words(std::string_view text) : rest_(text) {}
  std::string_view next() {
    while (!rest_.empty() && is_blank(rest_.front())) rest_.remove_prefix(1);
    std::size_t length = 0;
    while (length < rest_.size() && !is_blank(rest_[length])) ++length;
    const std::string_view word(rest_.data(), length);
    rest_.remove_prefix(length);
    return word;
  }

 private:
  static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }
  std::string_view rest_;
};

// Reads a number in 0..most.
bool read_number(std::string_view digits, std::int64_t most, std::int64_t& out) {
  out = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return false;
    out = out * 10 + (c - '0');
    if (out > most) return false;
  }
  return !digits.empty();
}

bool read_offset(std::string_view seconds, std::string_view nanoseconds, std::int64_t& out) {
  const bool before = !seconds.empty() && seconds.front() == '-';
  if (before) seconds.remove_prefix(1);
  std::int64_t s = 0, ns = 0;
  if (!read_number(seconds, kMaxSeconds, s) || !read_number(nanoseconds, kSecond - 1, ns)) return false;
  out = (before ? -s : s) * kSecond + ns;
  return true;
}

std::string_view link_text(const char* path, char (&buffer)[40]) {
  const ssize_t length = ::readlink(path, buffer, sizeof buffer);
  return {buffer, length > 0 ? static_cast<std::size_t>(length) : 0};
}

std::string_view file_text(const char* path, char (&buffer)[256], bool& lacked) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  lacked = fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM);
  if (fd < 0) return {};
  const ssize_t length = ::read(fd, buffer, sizeof buffer);
  ::close(fd);
  return {buffer, length > 0 ? static_cast<std::size_t>(length) : 0};
}

void learn() {
  const int saved = errno;
  char own_link[40], children_link[40], buffer[256];
  ClockOffsets offsets{0, 0};
  bool certain = true;
  // No link: the kernel has no time namespaces, or there is no /proc and so no start time either.
  const std::string_view own = link_text("/proc/self/ns/time", own_link);
  if (!own.empty() && own != kInitialNamespace) {
    // The file shows the offsets of the namespace for children. After unshare(CLONE_NEWTIME) that is not the process's
    // namespace, and no file shows its offsets. A new namespace starts as a copy of its parent, so these numbers are
    // the best estimate for times. Start times identify processes and must not be estimated.
    bool lacked = false;
    const bool read = parse_clock_offsets(file_text("/proc/self/timens_offsets", buffer, lacked), offsets);
    if (lacked) {
      errno = saved;
      return;
    }
    if (!read) offsets = {0, 0};
    certain = read && own == link_text("/proc/self/ns/time_for_children", children_link);
  }
  boottime_offset.store(certain ? offsets.boottime_ns : kUnknown, std::memory_order_relaxed);
  monotonic_offset.store(offsets.monotonic_ns, std::memory_order_relaxed);
  errno = saved;
}

std::int64_t learnt(const std::atomic<std::int64_t>& offset, std::int64_t otherwise) {
  std::int64_t known = offset.load(std::memory_order_relaxed);
  if (known != kNotLearnt) [[likely]]
    return known;
  learn();
  known = offset.load(std::memory_order_relaxed);
  return known != kNotLearnt ? known : otherwise;
}

}  // namespace

std::int64_t host_ns() {
  const std::int64_t offset_ns = learnt(monotonic_offset, 0);
  return now_ns() - offset_ns;
}

std::int64_t own_ns(std::int64_t host_ns) {
  std::int64_t own = 0;
  const bool too_far = __builtin_add_overflow(host_ns, learnt(monotonic_offset, 0), &own);
  return too_far ? INT64_MAX : own < 0 ? 0 : own;
}

std::uint32_t host_start_time(std::uint64_t ticks) {
  const std::int64_t offset_ns = learnt(boottime_offset, kUnknown);
  if (offset_ns == kUnknown) return 0;
  // Round down, as the kernel rounds the sum.
  const std::int64_t offset = offset_ns / kTickNs - (offset_ns % kTickNs < 0 ? 1 : 0);
  return static_cast<std::uint32_t>(ticks - static_cast<std::uint64_t>(offset));
}

void forget_clock_after_fork() {
  monotonic_offset.store(kNotLearnt, std::memory_order_relaxed);
  boottime_offset.store(kNotLearnt, std::memory_order_relaxed);
}

bool parse_clock_offsets(std::string_view text, ClockOffsets& out) {
  ClockOffsets read{0, 0};
  bool monotonic = false, boottime = false;
  Words words(text);
  for (std::string_view name; !(name = words.next()).empty();) {
    const std::string_view seconds = words.next();
    std::int64_t offset_ns = 0;
    if (!read_offset(seconds, words.next(), offset_ns)) return false;
    if (name == "monotonic") read.monotonic_ns = offset_ns, monotonic = true;
    else if (name == "boottime") read.boottime_ns = offset_ns, boottime = true;
  }
  if (!monotonic || !boottime) return false;
  out = read;
  return true;
}

}  // namespace headgate::bare
