#include "guest/bare/lz4.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace headgate::bare {
namespace {

std::string unpacked(std::string_view block, std::size_t bytes) {
  std::string out(bytes, '?');
  const bool good = unpack_lz4(reinterpret_cast<const std::uint8_t*>(block.data()), block.size(),
                               reinterpret_cast<std::uint8_t*>(out.data()), bytes);
  return good ? out : "damaged";
}

TEST(Lz4, LiteralsAndMatchesUnpack) {
  using namespace std::string_view_literals;
  EXPECT_EQ(unpacked("\x30"
                     "abc"sv,
                     3),
            "abc");
  // "ab", then 6 bytes from 2 back, then the rest as literals.
  EXPECT_EQ(unpacked("\x22"
                     "ab\x02\x00\x50"
                     "-end."sv,
                     13),
            "abababab-end.");
  // One byte repeated: a match that overlaps itself, with its length in an additional byte.
  EXPECT_EQ(unpacked("\x1f"
                     "x\x01\x00\x0a\x10"
                     "y"sv,
                     31),
            std::string(30, 'x') + "y");
  const std::string many(15 + 255 + 3, 'z');
  EXPECT_EQ(unpacked(std::string("\xf0\xff\x03", 3) + many, many.size()), many);
}

TEST(Lz4, ADamagedBlockIsRefused) {
  using namespace std::string_view_literals;
  for (const std::string_view block : {""sv,
                                       "\x40"
                                       "abc"sv,
                                       "\x30"
                                       "abcd"sv,
                                       "\xf0"sv, "\xf0\xff"sv,
                                       "\x22"
                                       "ab\x03\x00\x50"
                                       "-end."sv,
                                       "\x22"
                                       "ab\x00\x00\x50"
                                       "-end."sv,
                                       "\x22"
                                       "ab\x02"sv,
                                       "\x22"
                                       "ab\x02\x00"sv,
                                       "\x2f"
                                       "ab\x02\x00\xff\xff\xff"sv})
    EXPECT_EQ(unpacked(block, 13), "damaged") << block.size();
  EXPECT_EQ(unpacked("\x30"
                     "abc"sv,
                     2),
            "damaged")
      << "no room";
  EXPECT_EQ(unpacked("\x30"
                     "abc"sv,
                     4),
            "damaged")
      << "too little";
}

}  // namespace
}  // namespace headgate::bare
