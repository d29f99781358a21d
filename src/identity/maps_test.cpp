#include "identity/process.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace headgate::identity {
namespace {

using Answer = MapsSearch::Answer;

class Maps : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/headgate-maps-XXXXXX";
    ASSERT_NE(::mkdtemp(path), nullptr);
    proc_ = path;
    std::filesystem::create_directory(proc_ + "/7");
  }
  void TearDown() override { std::filesystem::remove_all(proc_); }

  void write(const std::string& text) const { std::ofstream(proc_ + "/7/maps") << text; }
  // Searches with this byte budget per call.
  Answer search(std::uint64_t inode, std::size_t at_a_time) const {
    MapsSearch search(proc_, 7, inode, "/run/a share/usage");
    for (int i = 0; i < 100'000; ++i) {
      std::size_t bytes = at_a_time;
      if (const Answer answer = search.look(bytes); answer != Answer::not_yet) return answer;
      EXPECT_EQ(bytes, 0u);
    }
    return Answer::not_yet;
  }

  std::string proc_;
};

TEST_F(Maps, AFileIsFoundByInodeOrPathAtAnySplit) {
  const std::string others =
      "55d0-55d1 r-xp 00000000 fe:01 4711                       /usr/bin/sleep\n7f00-7f01 rw-p 00000000 00:00 0 \n";
  const struct {
    std::string line;
    Answer answer;
  } cases[] = {
      {"7f02-7f03 rw-s 00000000 00:19 99                         /anywhere\n", Answer::yes},
      {"7f02-7f03 rw-s 00000000 00:19 12                         /run/a share/usage\n", Answer::yes},
      {"7f02-7f03 rw-s 00000000 00:19 999                        /run/a share/usages\n", Answer::no},
      {"7f02-7f03 rw-s 00000000 00:19 12                         /run/a share/usage (deleted)\n", Answer::no},
      {"7f02-7f03 rw-s 00000063 00:63 0 \n", Answer::no},
      {"nonsense\n\n", Answer::no},
      {"", Answer::no},
  };
  for (const auto& [line, answer] : cases) {
    write(others + line + others);
    for (const std::size_t at_a_time : {1u, 7u, 64u, 1u << 20}) EXPECT_EQ(search(99, at_a_time), answer) << line;
  }
}

TEST_F(Maps, AProcessThatShowsNoMappingsIsUndecided) {
  EXPECT_EQ(search(99, 64), Answer::hidden);
  write("");
  EXPECT_EQ(search(99, 64), Answer::hidden);
}

TEST_F(Maps, AnUnknownInodeDoesNotMatchZero) {
  write("7f02-7f03 rw-p 00000000 00:00 0 \n");
  EXPECT_EQ(search(0, 64), Answer::no);
}

}  // namespace
}  // namespace headgate::identity
