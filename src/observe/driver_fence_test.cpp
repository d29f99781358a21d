// The driver's limits by cgroup, with an NVML whose answers are scripted and directories in place of cgroups.
#include "observe/driver_fence.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "observe/test_nvml.hpp"

namespace headgate::observe {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kGiB = 1ull << 30;
constexpr const char* kGpu = "GPU-a";

class DriverFences : public testing::Test {
 protected:
  DriverFences()
      : nvml_(nvml::Library::open(SCRIPTED_NVML).value()),
        script_(*reinterpret_cast<Script* (*)()>(::dlsym(::dlopen(SCRIPTED_NVML, RTLD_NOW), "scripted_nvml"))()) {
    script_ = {};
    gpus_.resize(1);
    gpus_[0].uuid = kGpu;
    ledger_.share.name = "a";
    ledger_.share.devices.resize(1);
    ledger_.share.devices[0].uuid = kGpu;
    ledger_.share.devices[0].memory_limit_bytes = 2 * kGiB;
  }
  ~DriverFences() override {
    script_ = {};
    fs::remove_all(directory_);
  }

  static std::string new_directory() {
    std::string pattern = (fs::temp_directory_path() / "headgate-fence-XXXXXX").string();
    return ::mkdtemp(pattern.data()) == nullptr ? std::string() : pattern;
  }
  std::string cgroup(const std::string& name, bool populated = true) {
    const std::string path = directory_ + "/" + name;
    fs::create_directory(path);
    std::ofstream(path + "/cgroup.events") << "populated " << (populated ? 1 : 0) << "\nfrozen 0\n";
    return path;
  }
  [[nodiscard]] FenceTarget target(const std::string& cgroup) const {
    return {.share = "a", .uuid = kGpu, .cgroup = cgroup, .bytes = fence_bytes(2 * kGiB), .pids = {7}};
  }
  std::vector<Fence> hold(DriverFence& fence, const std::vector<FenceTarget>& targets) {
    return fence.hold(nvml_, gpus_, targets, {ledger_});
  }
  [[nodiscard]] std::string notes() const {
    std::ifstream file(directory_ + "/notes");
    return {(std::istreambuf_iterator<char>(file)), {}};
  }

  nvml::Library nvml_;
  Script& script_;
  const std::string directory_ = new_directory();
  std::vector<snapshot::Gpu> gpus_;
  LedgerSnapshot ledger_;
  EventLog events_;
  DriverFence fence_{directory_ + "/notes", events_};
};

TEST_F(DriverFences, SetsBothLimitsOnceAndReadsThemBack) {
  const std::string group = cgroup("libpod-x");
  for (int look = 0; look < 3; ++look) {
    script_.limits[group].used = script_.limits.contains(group) ? kGiB : 0;
    if (look == 0) script_.limits.erase(group);
    const auto fences = hold(fence_, {target(group)});
    ASSERT_EQ(fences.size(), 1u);
    EXPECT_TRUE(fences[0].holds) << fences[0].problem;
    EXPECT_EQ(fences[0].limit_bytes, 2 * kGiB);
    EXPECT_EQ(fences[0].used_bytes, look == 0 ? 0 : kGiB);
  }
  const std::string bytes = std::to_string(2 * kGiB);
  EXPECT_EQ(script_.limits_set, std::vector<std::string>{group + " " + bytes + " " + bytes});
  EXPECT_EQ(notes(), std::string(kGpu) + " a " + group + "\n");
}

TEST_F(DriverFences, FollowsTheSharesLimitAndPutsAChangedOneBack) {
  const std::string group = cgroup("libpod-x");
  ASSERT_TRUE(hold(fence_, {target(group)}).at(0).holds);
  FenceTarget larger = target(group);
  larger.bytes = 3 * kGiB;
  ASSERT_TRUE(hold(fence_, {larger}).at(0).holds);
  EXPECT_EQ(script_.limits.at(group).hard, 3 * kGiB);
  script_.limits.at(group).hard = kGiB;  // someone else's hand, on a limit that is ours
  ASSERT_TRUE(hold(fence_, {larger}).at(0).holds);
  EXPECT_EQ(script_.limits.at(group).hard, 3 * kGiB);
}

TEST_F(DriverFences, RemovesLimitsOfEmptyCgroups) {
  const std::string group = cgroup("libpod-x"), other = cgroup("libpod-y");
  static_cast<void>(hold(fence_, {target(group), target(other)}));
  static_cast<void>(hold(fence_, {}));
  EXPECT_EQ(script_.limits.at(group).hard, 2 * kGiB) << "it still has processes";
  cgroup("libpod-x", false);
  fs::remove_all(other);
  static_cast<void>(hold(fence_, {}));
  EXPECT_EQ(script_.limits.at(group).soft, 0u);
  EXPECT_EQ(script_.limits.at(group).hard, ~0ull);
  EXPECT_EQ(notes(), "");
}

TEST_F(DriverFences, RemovesLimitsWithTheirShare) {
  const std::string group = cgroup("libpod-x");
  static_cast<void>(hold(fence_, {target(group)}));
  static_cast<void>(fence_.hold(nvml_, gpus_, {}, {}));
  EXPECT_EQ(script_.limits.at(group).hard, ~0ull);
  static_cast<void>(hold(fence_, {target(group)}));
  FenceTarget shared = target(group);
  shared.share.clear();
  EXPECT_TRUE(hold(fence_, {shared}).empty());
  EXPECT_EQ(script_.limits.at(group).hard, ~0ull);
}

TEST_F(DriverFences, ARunsCgroupStaysUntilItsLimitIsRemoved) {
  const std::string group = directory_ + "/headgate-run-12";
  fs::create_directory(group);
  static_cast<void>(hold(fence_, {target(group)}));
  EXPECT_NE(::rmdir(group.c_str()), 0) << "the command's own attempt";
  static_cast<void>(hold(fence_, {}));
  EXPECT_FALSE(fs::exists(group));
  EXPECT_EQ(script_.limits.at(group).hard, ~0ull);
}

TEST_F(DriverFences, TheNextDaemonKnowsThemByTheNotes) {
  const std::string group = cgroup("with spaces in it");
  static_cast<void>(hold(fence_, {target(group)}));
  DriverFence next(directory_ + "/notes", events_);
  ASSERT_EQ(next.hold(nvml_, gpus_, {}, {ledger_}).size(), 1u) << "it has processes";
  cgroup("with spaces in it", false);
  static_cast<void>(next.hold(nvml_, gpus_, {}, {ledger_}));
  EXPECT_EQ(script_.limits.at(group).hard, ~0ull);
}

TEST_F(DriverFences, ASmallerLimitOfOthersStaysAndALargerOneDoesNot) {
  const std::string group = cgroup("libpod-x");
  script_.limits[group] = {0, kGiB, 0};
  const auto fences = hold(fence_, {target(group)});
  EXPECT_TRUE(fences.at(0).holds);
  EXPECT_EQ(fences.at(0).limit_bytes, kGiB);
  EXPECT_TRUE(script_.limits_set.empty());
  EXPECT_EQ(notes(), "");
  script_.limits[group] = {0, 5 * kGiB, 0};
  EXPECT_EQ(hold(fence_, {target(group)}).at(0).limit_bytes, 2 * kGiB);
}

// NVIDIA's container hook sets what the share's CDI file says, before the daemon sees the container.
TEST_F(DriverFences, TakesOverTheLimitOfNvidiasHook) {
  const std::string group = cgroup("libpod-x");
  script_.limits[group] = {2 * kGiB, 2 * kGiB, kGiB};
  EXPECT_TRUE(hold(fence_, {target(group)}).at(0).holds);
  EXPECT_TRUE(script_.limits_set.empty());
  FenceTarget smaller = target(group);
  smaller.bytes = kGiB;
  EXPECT_EQ(hold(fence_, {smaller}).at(0).limit_bytes, kGiB);
}

TEST_F(DriverFences, ARefusalIsToldOnceAndHoldsNothing) {
  const std::string group = cgroup("libpod-x");
  script_.limit_result = abi::NVML_ERROR_NO_PERMISSION;
  for (int look = 0; look < 3; ++look) {
    const auto fences = hold(fence_, {target(group)});
    EXPECT_FALSE(fences.at(0).holds);
    EXPECT_EQ(fences.at(0).problem, "is refused: headgated is not root");
  }
  EXPECT_EQ(events_.kept(), 1u);
}

TEST_F(DriverFences, AnotherValueReadBackHoldsNothing) {
  script_.limit_is_kept = false;
  const auto fences = hold(fence_, {target(cgroup("libpod-x"))});
  EXPECT_FALSE(fences.at(0).holds);
  EXPECT_EQ(fences.at(0).problem, "was set to 2.0 GiB, but is read back as none");
}

TEST_F(DriverFences, NotesThatCannotBeWrittenSetNothing) {
  DriverFence fence(directory_ + "/no/such/directory/notes", events_);
  EXPECT_FALSE(hold(fence, {target(cgroup("libpod-x"))}).at(0).holds);
  EXPECT_TRUE(script_.limits_set.empty());
}

TEST(FenceBytes, AreWholeMebibytes) {
  EXPECT_EQ(fence_bytes(kGiB), kGiB);
  EXPECT_EQ(fence_bytes(kGiB + 1), kGiB + (1 << 20));
  EXPECT_GT(fence_bytes(~0ull), ~0ull >> 1);
}

}  // namespace
}  // namespace headgate::observe
