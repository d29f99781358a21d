#include "cli/top/keys.hpp"

#include <gtest/gtest.h>

namespace headgate::cli {
namespace {

using enum KeyKind;

TEST(Keys, SequencesOfEachTerminalAreRecognised) {
  const struct {
    const char* bytes;
    std::vector<Key> keys;
  } table[] = {
      {"q", {{text, "q"}}},
      {"?/", {{text, "?"}, {text, "/"}}},
      {"\x1b[A\x1bOB", {{up}, {down}}},
      {"\x1b[5~\x1b[6~", {{page_up}, {page_down}}},
      {"\x1b[H\x1b[F\x1bOH\x1b[4~\x1b[1~\x1b[8~", {{home}, {end}, {home}, {end}, {home}, {end}}},
      {"\x1bOP\x1b[11~\x1b[[A", {{f1}, {f1}, {f1}}},
      {"\x1b[17~\x1b[20~\x1b[21~", {{f6}, {f9}, {f10}}},
      {"\r\n", {{enter}, {enter}}},
      {"\x7f\b", {{backspace}, {backspace}}},
      {"\x0c\t", {{redraw}, {tab}}},
      {"\xc3\xa4\xe4\xb8\x96\xf0\x9f\x98\x80",
       {{text, "\xc3\xa4"}, {text, "\xe4\xb8\x96"}, {text, "\xf0\x9f\x98\x80"}}},
      {"\x1bq", {{escape}, {text, "q"}}},
      {"\x1b\x1b[A", {{escape}, {up}}},
  };
  for (const auto& row : table) EXPECT_EQ(KeyReader().feed(row.bytes), row.keys) << row.bytes + 1;
}

TEST(Keys, AnUnknownSequenceIsSkippedWhole) {
  const char* table[] = {
      "\x1b[99;5u",      // a key with modifiers
      "\x1b[M !!",       // X10 mouse
      "\x1b[<0;33;12M",  // SGR mouse
      "\x1b[?62;c",      // a terminal's reply
      "\xff\xfe",        // invalid UTF-8
      "\xe4\xb8",        // half a character
      "\xc2\x9b",        // CSI as one Latin-1 character
      "\xe2\x80\xae",    // changes the writing direction
      "\x01\x02",        // control characters
      "\x1b[1\x01",      // an interrupted sequence
  };
  for (const char* bytes : table) {
    const auto keys = KeyReader().feed(std::string(bytes) + "q");
    ASSERT_FALSE(keys.empty()) << bytes + 1;
    EXPECT_EQ(keys, (std::vector<Key>{{text, "q"}})) << bytes + 1;
  }
}

TEST(Keys, ASequenceMayArriveByteByByte) {
  KeyReader reader;
  std::vector<Key> keys;
  for (const char byte : std::string("\x1b[5~\xe4\xb8\x96q")) {
    for (auto& key : reader.feed({&byte, 1})) keys.push_back(std::move(key));
  }
  EXPECT_EQ(keys, (std::vector<Key>{{page_up}, {text, "\xe4\xb8\x96"}, {text, "q"}}));
}

TEST(Keys, ALoneEscapeIsAKeyOnceNothingFollows) {
  KeyReader reader;
  EXPECT_TRUE(reader.feed("\x1b").empty());
  EXPECT_TRUE(reader.waiting());
  EXPECT_EQ(reader.pause(), (std::vector<Key>{{escape}}));
  EXPECT_FALSE(reader.waiting());
  EXPECT_TRUE(reader.feed("\x1b[1;").empty());
  EXPECT_TRUE(reader.pause().empty()) << "half a sequence is no key";
}

TEST(Keys, AnEndlessSequenceIsDropped) {
  KeyReader reader;
  EXPECT_TRUE(reader.feed("\x1b[" + std::string(64, '1')).empty());
  EXPECT_EQ(reader.feed("q").back(), (Key{text, "q"}));
}

}  // namespace
}  // namespace headgate::cli
