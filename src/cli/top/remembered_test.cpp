#include "cli/top/top.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace headgate::cli {
namespace {

namespace fs = std::filesystem;

class Remembered : public testing::Test {
 protected:
  Remembered() {
    std::string pattern = testing::TempDir() + "/headgate-top-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    ::setenv("XDG_CONFIG_HOME", (directory_ + "/config").c_str(), 1);
  }
  ~Remembered() override {
    ::unsetenv("XDG_CONFIG_HOME");
    fs::remove_all(directory_);
  }
  void write(const std::string& text) { std::ofstream(file()) << text; }
  [[nodiscard]] std::string folder() const { return directory_ + "/config/headgate"; }
  [[nodiscard]] std::string file() const { return folder() + "/top"; }

  std::string directory_;
};

TEST_F(Remembered, AnOrderIsReadBack) {
  EXPECT_EQ(remembered_order(), std::nullopt);
  for (const bool reverse : {true, false}) {
    for (int sort = 0; sort <= static_cast<int>(TopSort::state); ++sort) {
      const TopOrder order{static_cast<TopSort>(sort), reverse};
      remember_order(order);
      EXPECT_EQ(remembered_order(), order) << sort;
    }
  }
  struct stat facts{};
  ASSERT_EQ(::stat(folder().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0700u);
  ASSERT_EQ(::stat(file().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0600u);
}

TEST_F(Remembered, OtherContentIsIgnored) {
  remember_order({TopSort::memory, false});
  const auto is_ignored = [this](const std::string& text) {
    write(text);
    return remembered_order() == std::nullopt;
  };
  EXPECT_TRUE(is_ignored(""));
  EXPECT_TRUE(is_ignored("memory"));
  EXPECT_TRUE(is_ignored("memory\n\n"));
  EXPECT_TRUE(is_ignored("\033[2J\n"));
  EXPECT_TRUE(is_ignored(std::string(100'000, 'x')));
  fs::remove(file());
  ASSERT_EQ(::mkfifo(file().c_str(), 0600), 0);
  EXPECT_EQ(remembered_order(), std::nullopt) << "and nothing waits for a writer";
}

TEST_F(Remembered, NothingIsWrittenThroughALink) {
  fs::create_directories(directory_ + "/config");
  fs::create_directories(directory_ + "/elsewhere");
  fs::create_directory_symlink(directory_ + "/elsewhere", folder());
  remember_order({TopSort::memory, false});
  EXPECT_TRUE(fs::is_empty(directory_ + "/elsewhere"));
  fs::remove(folder());
  std::ofstream(folder()) << "a file";
  remember_order({TopSort::memory, false});
  EXPECT_EQ(remembered_order(), std::nullopt);
}

}  // namespace
}  // namespace headgate::cli
