#include "daemon/collector_files.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace headgate::daemon {
namespace {

namespace fs = std::filesystem;

class LineFiles : public ::testing::Test {
 protected:
  LineFiles() {
    std::string name = testing::TempDir() + "headgate-lines-XXXXXX";
    place_ = ::mkdtemp(name.data());
    path_ = place_ + "/metrics.log";
  }
  ~LineFiles() override { fs::remove_all(place_); }
  static std::string text(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::string place_, path_;
};

TEST_F(LineFiles, LinesAreAppendedAndOldFilesRemoved) {
  LineFile file(path_, 10, 2);
  for (const char* line : {"one\n", "two\n", "three\n", "four\n", "five\n", "six\n"}) EXPECT_TRUE(file.add(line));
  EXPECT_EQ(text(path_), "six\n");
  EXPECT_EQ(text(path_ + ".1"), "four\nfive\n");
  EXPECT_EQ(text(path_ + ".2"), "three\n");
  EXPECT_FALSE(fs::exists(path_ + ".3"));
  EXPECT_TRUE(file.add("a line that is longer than a file may be\n")) << "a line is never cut";
  EXPECT_EQ(text(path_ + ".1"), "six\n");
}

// A file size limit stands in for a full disk: part of the line fits, then the write fails.
TEST_F(LineFiles, LinesThatDoNotFitLeaveNoPartialLine) {
  LineFile file(path_);
  ASSERT_TRUE(file.add("one\n"));
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit full{.rlim_cur = 10, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &full);
  const bool added = file.add("two\nthree\nfour\n").has_value();
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, SIG_DFL);
  EXPECT_FALSE(added);
  EXPECT_EQ(text(path_), "one\n");
  EXPECT_TRUE(file.add("two\nthree\nfour\n"));
  EXPECT_EQ(text(path_), "one\ntwo\nthree\nfour\n");
}

TEST_F(LineFiles, AnExternalMoveOfTheFileNeedsNoNotice) {
  LineFile file(path_);
  EXPECT_TRUE(file.add("one\n"));
  fs::rename(path_, path_ + ".elsewhere");
  EXPECT_TRUE(file.add("two\n"));
  EXPECT_EQ(text(path_), "two\n");
}

TEST_F(LineFiles, ALinkOrAMissingDirectoryIsANamedError) {
  fs::create_symlink(place_ + "/passwd", path_);
  const auto linked = LineFile(path_).add("x\n");
  ASSERT_FALSE(linked);
  EXPECT_NE(linked.error().message.find(path_), std::string::npos) << linked.error().message;
  EXPECT_FALSE(fs::exists(place_ + "/passwd"));
  EXPECT_FALSE(LineFile(place_ + "/no/such").add("x\n"));
}

}  // namespace
}  // namespace headgate::daemon
