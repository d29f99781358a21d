#include "cli/run/launch.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

namespace headgate::cli {
namespace {

namespace fs = std::filesystem;

// A fake /proc and cgroup file system; the latter lists the members of each cgroup.
class FakeHost {
 public:
  FakeHost() {
    std::string path = (fs::temp_directory_path() / "headgate-cgroup-XXXXXX").string();
    root_ = ::mkdtemp(path.data());
    fs::create_directories(proc() + "/self");
  }
  ~FakeHost() { fs::remove_all(root_); }
  FakeHost(const FakeHost&) = delete;
  FakeHost& operator=(const FakeHost&) = delete;

  void says(const std::string& cgroups) const { std::ofstream(proc() + "/self/cgroup") << cgroups; }
  void has(const std::string& cgroup, pid_t pid) const {
    fs::create_directories(mounts() + cgroup);
    std::ofstream(mounts() + cgroup + "/cgroup.procs") << "1\n" << pid << "\n";
  }
  [[nodiscard]] bool there(const std::string& path) const { return fs::exists(mounts() + path); }
  [[nodiscard]] std::string proc() const { return root_ + "/proc"; }
  [[nodiscard]] std::string mounts() const { return root_ + "/cgroup"; }

 private:
  std::string root_;
};

std::string name_of(pid_t pid) { return "/headgate-run-" + std::to_string(pid); }

TEST(OwnCgroup, IsBelowOursAndRemovedWithTheRun) {
  const FakeHost host;
  for (const std::string mount : {"/unified", ""}) {
    host.says("6:freezer:/\n1:name=systemd:/old\n0::/user.slice/a.scope\n");
    host.has(mount + "/user.slice/a.scope", ::getpid());
    if (!mount.empty()) host.has(mount, 1);
    const std::string made = mount + "/user.slice/a.scope" + name_of(::getpid());
    {
      const OwnCgroup cgroup(host.proc(), host.mounts());
      EXPECT_TRUE(host.there(made)) << mount;
    }
    EXPECT_FALSE(host.there(made)) << mount;
    fs::remove_all(host.mounts());
  }
}

// A container that has the host's cgroups mounted, but its own namespace: that "/" is not ours.
TEST(OwnCgroup, IsNotMadeBelowACgroupWithTheSameName) {
  const FakeHost host;
  host.says("0::/\n");
  host.has("", ::getpid() + 1);
  const OwnCgroup cgroup(host.proc(), host.mounts());
  EXPECT_FALSE(host.there(name_of(::getpid())));
  EXPECT_EQ(cgroup.door(), -1);
}

TEST(OwnCgroup, IsNotMadeWithoutVersionTwo) {
  const FakeHost host;
  host.says("6:freezer:/a\n");
  host.has("/a", ::getpid());
  const OwnCgroup cgroup(host.proc(), host.mounts());
  EXPECT_FALSE(host.there("/a" + name_of(::getpid())));
}

TEST(OwnCgroup, CgroupsOfKilledRunsAreRemovedAndNoOthers) {
  const FakeHost host;
  host.says("0::/a\n");
  host.has("/a", ::getpid());
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(dead, nullptr, 0), dead);
  const std::string left = "/a" + name_of(dead), living = "/a" + name_of(::getppid());
  const std::vector<std::string> kept = {living, "/a/headgate-run-", "/a/headgate-run-x", "/a/other"};
  fs::create_directories(host.mounts() + left);
  for (const std::string& each : kept) fs::create_directories(host.mounts() + each);
  const OwnCgroup cgroup(host.proc(), host.mounts());
  EXPECT_FALSE(host.there(left));
  for (const std::string& each : kept) EXPECT_TRUE(host.there(each)) << each;
}

}  // namespace
}  // namespace headgate::cli
