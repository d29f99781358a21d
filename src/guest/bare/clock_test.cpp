#include "guest/bare/clock.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80  // Linux 5.6
#endif

namespace headgate::bare {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

std::int64_t clock_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

std::uint64_t start_ticks() {
  std::FILE* const file = std::fopen("/proc/self/stat", "re");
  char text[512] = {};
  if (file == nullptr || std::fread(text, 1, sizeof text - 1, file) == 0) return 0;
  std::fclose(file);
  const std::string all(text);
  std::size_t at = all.rfind(')');
  for (int field = 2; field < 22; ++field) at = all.find(' ', at + 1);
  return std::strtoull(all.c_str() + at + 1, nullptr, 10);
}

TEST(Clock, OffsetsAreReadInTheKernelsFormat) {
  ClockOffsets out{};
  ASSERT_TRUE(parse_clock_offsets("monotonic      500000         0\nboottime            0         0\n", out));
  EXPECT_EQ(out.monotonic_ns, 500'000 * kSecond);
  EXPECT_EQ(out.boottime_ns, 0);
  // -1.5 s is written as -2 s plus half a second.
  ASSERT_TRUE(parse_clock_offsets("monotonic          -2 500000000\nboottime            7         9\n", out));
  EXPECT_EQ(out.monotonic_ns, -1'500'000'000);
  EXPECT_EQ(out.boottime_ns, 7 * kSecond + 9);
  ASSERT_TRUE(parse_clock_offsets("boottime 1 0\nlater 3 0\nmonotonic 2 0", out)) << "a clock of a kernel to come";
  EXPECT_EQ(out.monotonic_ns, 2 * kSecond);
}

TEST(Clock, AnInvalidListOfOffsetsIsRefusedWhole) {
  for (const char* text :
       {"", "\n", "monotonic 1 0\n", "boottime 1 0\n", "monotonic 1\nboottime 1 0\n", "monotonic x 0\nboottime 1 0\n",
        "monotonic 1 -1\nboottime 1 0\n", "monotonic 1 1000000000\nboottime 1 0\n", "monotonic - 0\nboottime 1 0\n",
        "monotonic 9223372036854775808 0\nboottime 0 0\n", "monotonic 4611686019 0\nboottime 0 0\n",
        "monotonic 1 0\nboottime 99999999999999999999999 0\n", "monotonic 1 0\nboottime"}) {
    ClockOffsets out{3, 4};
    EXPECT_FALSE(parse_clock_offsets(text, out)) << text;
    EXPECT_EQ(out.monotonic_ns, 3) << text;
    EXPECT_EQ(out.boottime_ns, 4) << text;
  }
}

TEST(Clock, AStartTimeMayDifferByATick) {
  EXPECT_TRUE(same_start(100, 100));
  EXPECT_TRUE(same_start(100, 101));
  EXPECT_TRUE(same_start(101, 100));
  EXPECT_TRUE(same_start(0, ~0u));
  EXPECT_FALSE(same_start(100, 102));
  EXPECT_FALSE(same_start(102, 100));
}

TEST(Clock, ErrnoIsPreserved) {
  forget_clock_after_fork();
  errno = 77;
  host_ns();
  EXPECT_EQ(errno, 77);
}

// Returns 0 if a child in such a namespace sees the host's clocks, 77 if the kernel has none, else a failure code.
int in_time_namespace(const char* offsets) {
  const std::int64_t before = host_ns();
  const pid_t maker = ::fork();
  if (maker == 0) {
    if (::unshare(CLONE_NEWTIME) != 0) ::_exit(77);
    std::FILE* const file = std::fopen("/proc/self/timens_offsets", "we");
    if (file == nullptr || std::fputs(offsets, file) < 0 || std::fclose(file) != 0) ::_exit(77);
    // This process has not changed its namespace, although the file now shows its children's.
    forget_clock_after_fork();
    const std::int64_t still = host_ns() - before;
    if (still < 0 || still > 60 * kSecond) ::_exit(2);
    const std::int64_t outside = clock_ns();
    const std::uint32_t started = host_start_time(start_ticks());
    const pid_t child = ::fork();
    if (child == 0) {
      forget_clock_after_fork();
      // A read that fails for lack of descriptors must not count as offset 0, now or later.
      const std::uint64_t ticks = start_ticks();
      rlimit most{}, none{};
      if (::getrlimit(RLIMIT_NOFILE, &most) != 0) ::_exit(7);
      none.rlim_max = most.rlim_max;
      if (::setrlimit(RLIMIT_NOFILE, &none) != 0 || host_start_time(ticks) != 0) ::_exit(7);
      if (::setrlimit(RLIMIT_NOFILE, &most) != 0 || host_start_time(ticks) == 0) ::_exit(8);
      const std::int64_t shift = clock_ns() - outside;
      if (shift > -60 * kSecond && shift < 60 * kSecond) ::_exit(3);
      const std::int64_t since = host_ns() - before;
      if (since < 0 || since > 60 * kSecond) ::_exit(4);
      const std::int64_t back = own_ns(host_ns()) - clock_ns();
      if (back > 0 || back < -60 * kSecond) ::_exit(5);
      const std::uint32_t later = host_start_time(start_ticks()) - started + 1;
      ::_exit(later <= 60 * 100 ? 0 : 6);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
  }
  int status = 0;
  ::waitpid(maker, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

TEST(Clock, IsTheHostsInEveryTimeNamespace) {
  for (const char* offsets :
       {"monotonic 500000 0\nboottime 500000 0\n", "monotonic 400000 123456789\nboottime 300000 7\n"}) {
    const int status = in_time_namespace(offsets);
    if (status == 77) GTEST_SKIP() << "this machine makes no time namespaces";
    EXPECT_EQ(status, 0) << offsets;
  }
}

}  // namespace
}  // namespace headgate::bare
