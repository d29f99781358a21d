#include "guest/limiter/memory/reclaim_hint.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using headgate::limiter::MemoryRange;
using headgate::limiter::next_anonymous;
using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

// In the format of proc(5), from Linux 6.18.
constexpr std::string_view kMaps =
    "55d0c8a00000-55d0c8a02000 r--p 00000000 fe:00 262154                     /usr/bin/python3\n"
    "55d0c8c05000-55d0c8c06000 rw-p 00205000 fe:00 262154                     /usr/bin/python3\n"
    "55d0ca000000-55d0ca200000 rw-p 00000000 00:00 0                          [heap]\n"
    "7f1200000000-7f1240000000 rw-p 00000000 00:00 0 \n"
    "7f1240000000-7f1240021000 rw-s 00000000 00:05 1                          /dev/zero (deleted)\n"
    "7f1250000000-7f1250021000 ---p 00000000 00:00 0 \n"
    "7f1260000000-7f1260400000 rw-s 00000000 00:06 371                        /dev/nvidiactl\n"
    "7f1270000000-7f1270400000 rwxp 00000000 00:00 0                          [anon:driver rw-p]\n"
    "7ffd10000000-7ffd10021000 rw-p 00000000 00:00 0                          [stack]\n"
    "7ffd10100000-7ffd10102000 r-xp 00000000 00:00 0                          [vdso]\n"
    "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";

Ranges read(std::string_view text) {
  MemoryRange range;
  Ranges found;
  while (next_anonymous(text, range)) found.emplace_back(range.from, range.to);
  return found;
}

TEST(ReclaimHint, CoversOnlyTheProgramsAnonymousMemory) {
  const Ranges expected = {{0x55d0ca000000, 0x55d0ca200000},
                           {0x7f1200000000, 0x7f1240000000},
                           {0x7f1270000000, 0x7f1270400000},
                           {0x7ffd10000000, 0x7ffd10021000}};
  EXPECT_EQ(read(kMaps), expected);
}

TEST(ReclaimHint, StopsBeforeALineThatIsCut) {
  const Ranges whole = read(kMaps);
  for (std::size_t size = 0; size <= kMaps.size(); ++size) {
    const Ranges part = read(kMaps.substr(0, size));
    const auto lines = std::ranges::count(kMaps.substr(0, size), '\n');
    EXPECT_LE(part.size(), static_cast<std::size_t>(lines)) << size;
    EXPECT_TRUE(std::ranges::equal(part, std::span(whole).first(part.size()))) << size;
  }
}

}  // namespace
