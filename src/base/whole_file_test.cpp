#include "base/whole_file.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "base/trimmed.hpp"

namespace headgate {
namespace {

class WholeFiles : public testing::Test {
 protected:
  WholeFiles() {
    std::string pattern = "/tmp/headgate-whole-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~WholeFiles() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  std::string folder_;
};

TEST_F(WholeFiles, ContentIsReadBackWithItsMode) {
  ASSERT_TRUE(replace_whole_file(folder_ + "/a", "one", {.mode = 0640}));
  ASSERT_TRUE(replace_whole_file(folder_ + "/a", std::string(100'000, 'x'), {}));
  const auto file = read_whole_file(folder_ + "/a", 100'000);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->text, std::string(100'000, 'x'));
  EXPECT_EQ(file->facts.st_mode & 0777, 0600u);
  EXPECT_EQ(entries(), 1u) << "nothing is left beside it";
  EXPECT_EQ(read_whole_file(folder_ + "/a", 99'999).error().code, ErrorCode::failed);
}

TEST_F(WholeFiles, AFileThatCannotBeReplacedStaysUnchanged) {
  std::filesystem::create_directory(folder_ + "/a");
  EXPECT_FALSE(replace_whole_file(folder_ + "/a", "x", {})) << "a directory has that name";
  EXPECT_EQ(entries(), 1u);
  EXPECT_FALSE(replace_whole_file(folder_ + "/none/b", "x", {}));
}

TEST_F(WholeFiles, TheRestOfAKilledWriterIsNoObstacle) {
  ASSERT_TRUE(replace_whole_file(folder_ + "/a.new", "half", {}));
  ASSERT_TRUE(replace_whole_file(folder_ + "/a", "whole", {}));
  EXPECT_EQ(read_whole_file(folder_ + "/a", 10)->text, "whole");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(WholeFiles, ALinkIsReplacedAndNotFollowed) {
  ASSERT_TRUE(replace_whole_file(folder_ + "/target", "old", {}));
  ASSERT_EQ(::symlink((folder_ + "/target").c_str(), (folder_ + "/link").c_str()), 0);
  ASSERT_TRUE(replace_whole_file(folder_ + "/link", "new", {}));
  EXPECT_EQ(read_whole_file(folder_ + "/target", 10)->text, "old");
}

TEST_F(WholeFiles, OnlyRegularFilesAreRead) {
  EXPECT_FALSE(read_whole_file(folder_, 10));
  ASSERT_EQ(::mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(read_whole_file(folder_ + "/pipe", 10).error().code, ErrorCode::usage);
  EXPECT_FALSE(read_whole_file(folder_ + "/none", 10));
}

TEST(Trimmed, TakesBlanksAndTabsOffBothEnds) {
  EXPECT_EQ(trimmed(" \ta b\t "), "a b");
  EXPECT_EQ(trimmed(" \t"), "");
  EXPECT_EQ(trimmed(""), "");
}

}  // namespace
}  // namespace headgate
