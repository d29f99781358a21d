#include "base/utf8.hpp"

#include <gtest/gtest.h>

namespace headgate {
namespace {

TEST(Utf8, ACharacterIsTakenWholeOrNotAtAll) {
  EXPECT_EQ(utf8_character("a"), 1u);
  EXPECT_EQ(utf8_character("\xd1\x80"), 2u) << "its second byte would be a control character alone";
  EXPECT_EQ(utf8_character("\xe8\xaa\x9e-"), 3u);
  EXPECT_EQ(utf8_character("\xf0\x9f\x98\x80"), 4u);
  for (const char* bad : {"\x80", "\xc0\x80", "\xe8\xaa", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xff"})
    EXPECT_EQ(utf8_character(bad), 0u) << bad;
}

TEST(Utf8, NamesInAnyScriptAreKeptAndCannotDriveATerminal) {
  EXPECT_EQ(printable("\xd0\x90\xc3\x84 \xf0\x9f\x98\x80"), "\xd0\x90\xc3\x84 \xf0\x9f\x98\x80");
  EXPECT_EQ(printable("a\x1b[2J\x7f.\xc2\x9b.\x9b.\xe2\x80\xae"), "a?[2J?.?.?.?");
  EXPECT_EQ(printable("\xd0\x90\xd0\x90", 3), "\xd0\x90") << "half of a character is none";
  EXPECT_EQ(printable("\x1b\x1b\x1b", 2), "??");
}

}  // namespace
}  // namespace headgate
