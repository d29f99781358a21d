#include "node/enforce.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace headgate::node {
namespace {

namespace fs = std::filesystem;

class FrozenProcess : public ::testing::Test {
 protected:
  FrozenProcess() : root_(::testing::TempDir() + "headgate-frozen-" + std::to_string(::getpid())) {
    roots_ = {.proc = root_ + "/proc", .cgroup = root_ + "/cgroup"};
  }
  ~FrozenProcess() override { fs::remove_all(root_); }
  void write(const std::string& file, const std::string& text) const {
    fs::create_directories(fs::path(root_ + file).parent_path());
    std::ofstream(root_ + file) << text;
  }
  const std::string root_;
  Roots roots_;
};

TEST_F(FrozenProcess, AStoppedProcessIsFrozenForAnyProgramName) {
  write("/proc/41/stat", "41 (py) T (thon) T 1 41 41 0\n");
  EXPECT_TRUE(is_frozen(41, roots_));
  write("/proc/41/stat", "41 (py) T (thon) S 1 41 41 0\n");
  EXPECT_FALSE(is_frozen(41, roots_));
  write("/proc/41/stat", "41 (python) t 1 41 41 0\n");
  EXPECT_TRUE(is_frozen(41, roots_));
  EXPECT_FALSE(is_frozen(42, roots_)) << "nothing is known of this process";
}

TEST_F(FrozenProcess, AProcessInAFrozenCgroupIsFrozen) {
  write("/proc/41/stat", "41 (python) S 1 41 41 0\n");
  write("/proc/41/cgroup", "0::/pods/a\n");
  write("/cgroup/pods/a/cgroup.events", "populated 1\nfrozen 0\n");
  EXPECT_FALSE(is_frozen(41, roots_));
  write("/cgroup/pods/a/cgroup.events", "populated 1\nfrozen 1\n");
  EXPECT_TRUE(is_frozen(41, roots_));
  write("/proc/41/cgroup", "7:freezer:/docker/b\n3:pids:/docker/b\n");
  write("/cgroup/freezer/docker/b/freezer.state", "THAWED\n");
  EXPECT_FALSE(is_frozen(41, roots_));
  write("/cgroup/freezer/docker/b/freezer.state", "FROZEN\n");
  EXPECT_TRUE(is_frozen(41, roots_));
}

}  // namespace
}  // namespace headgate::node
