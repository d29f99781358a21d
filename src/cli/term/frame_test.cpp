#include "cli/term/frame.hpp"

#include <gtest/gtest.h>

namespace headgate::cli {
namespace {

TEST(Cropped, TextThatFitsIsUnchanged) {
  EXPECT_EQ(cropped("one\ntwo\n", {10, 2}), "one\ntwo");
  EXPECT_EQ(cropped("exactly10c\n", {10, 1}), "exactly10c");
  EXPECT_EQ(cropped("", {10, 1}), "");
}

TEST(Cropped, LongLinesAndExtraLinesAreMarked) {
  EXPECT_EQ(cropped("exactly10cells\nb", {10, 2}), "exactly10~\nb");
  EXPECT_EQ(cropped("a\nb\nc\nd\n", {20, 3}), "a\nb\n... 2 more lines");
  EXPECT_EQ(cropped("a\nb\n", {20, 1}), "... 2 more lines");
}

TEST(Cropped, ColoursTakeNoSpaceAndEndWithTheLine) {
  EXPECT_EQ(cropped("\x1b[1mbold\x1b[0m", {4, 1}), "\x1b[1mbold\x1b[0m\x1b[0m");
  EXPECT_EQ(cropped("\x1b[1mbolder\x1b[0m", {4, 1}), "\x1b[1mbol~\x1b[0m");
}

TEST(Cropped, AWideCharacterIsNotSplit) {
  EXPECT_EQ(cropped("\u4e2d\u4e2d\u4e2d", {5, 1}), "\u4e2d\u4e2d~");
  EXPECT_EQ(cropped("\u4e2d\u4e2d\u4e2d", {4, 1}), "\u4e2d~");
}

}  // namespace
}  // namespace headgate::cli
