#include "node/own_cgroups.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tenancy/test_shares.hpp"

namespace headgate::node {
namespace {

namespace fs = std::filesystem;

const std::string kId(64, 'a');
const std::string kScope = "/machine.slice/libpod-" + kId + ".scope";
constexpr std::uint64_t kGiB = 1ull << 30;

TEST(OwnCgroups, ARunsAndAContainersCgroupIsTheirOwnAndNoOtherIs) {
  EXPECT_EQ(own_part("/user.slice/headgate-run-12"), "/user.slice/headgate-run-12");
  EXPECT_EQ(own_part("/user.slice/headgate-run-12/headgate-frozen-15"), "/user.slice/headgate-run-12");
  EXPECT_EQ(own_part(kScope + "/container"), kScope);
  EXPECT_EQ(own_part("/docker/" + kId), "/docker/" + kId);
  // The innermost one counts.
  EXPECT_EQ(own_part("/docker/" + kId + "/headgate-run-1"), "/docker/" + kId + "/headgate-run-1");
  for (const char* path : {"/", "/user.slice/session-1.scope", "/headgate-run-", "/headgate-run-x", "/train.service"})
    EXPECT_EQ(own_part(path), "") << path;
}

// A tree in the shape of /proc and /sys/fs/cgroup.
class OwnCgroupsOf : public testing::Test {
 protected:
  void process(std::uint32_t pid, const std::string& path) const {
    fs::create_directories(roots_.proc + "/" + std::to_string(pid));
    std::ofstream(roots_.proc + "/" + std::to_string(pid) + "/cgroup") << "1:name=systemd:/x\n0::" << path << "\n";
    fs::create_directories(roots_.cgroup + path);
    std::ofstream(roots_.cgroup + path + "/cgroup.procs") << pid << "\n";
  }
  void share(const std::string& name, std::vector<std::uint32_t> pids, std::optional<std::uint64_t> limit = kGiB) {
    auto& ledger = input_.ledgers.emplace_back();
    ledger.share.name = name;
    ledger.share.devices.resize(1);
    ledger.share.devices[0].uuid = "GPU-a";
    ledger.share.devices[0].memory_limit_bytes = limit;
    input_.host_pids.push_back(std::move(pids));
  }
  tenancy::Scratch scratch_;
  Roots roots_{.proc = scratch_.path() + "/proc", .cgroup = scratch_.path() + "/cgroup"};
  observe::JoinInput input_;
};

TEST_F(OwnCgroupsOf, OneTargetForACgroupWithAllItsProcesses) {
  process(10, kScope), process(11, kScope), process(12, "/elsewhere");
  share("a", {10, 11, 12, 0});
  const auto targets = own_cgroups(input_, {}, roots_);
  ASSERT_EQ(targets.size(), 1u);
  EXPECT_EQ(targets[0].share, "a");
  EXPECT_EQ(targets[0].cgroup, roots_.cgroup + kScope);
  EXPECT_EQ(targets[0].bytes, kGiB);
  EXPECT_EQ(targets[0].pids, (std::vector<std::uint32_t>{10, 11}));
}

TEST_F(OwnCgroupsOf, ACgroupWithTwoSharesIsNeithers) {
  process(10, kScope), process(20, kScope);
  share("a", {10}), share("b", {20});
  const auto targets = own_cgroups(input_, {}, roots_);
  ASSERT_EQ(targets.size(), 2u);
  EXPECT_EQ(targets[0].share + targets[1].share, "");
}

TEST_F(OwnCgroupsOf, AClaimedProcessAndAShareWithoutALimitHaveNone) {
  process(10, kScope), process(20, "/docker/" + kId);
  share("a", {10}), share("b", {20}, std::nullopt);
  input_.claimed = {10};
  EXPECT_TRUE(own_cgroups(input_, {}, roots_).empty());
}

TEST_F(OwnCgroupsOf, ARunsCgroupIsKnownBeforeAProgramOfItRegisters) {
  process(30, "/user.slice");
  share("a", {});
  EXPECT_TRUE(own_cgroups(input_, {{.share = "a", .pid = 30}}, roots_).empty()) << "it has made none";
  process(31, "/user.slice/headgate-run-30");
  const auto targets = own_cgroups(input_, {{.share = "a", .pid = 30}}, roots_);
  ASSERT_EQ(targets.size(), 1u);
  EXPECT_EQ(targets[0].cgroup, roots_.cgroup + "/user.slice/headgate-run-30");
  EXPECT_TRUE(targets[0].pids.empty());
}

}  // namespace
}  // namespace headgate::node
