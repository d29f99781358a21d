// NVML's setters, in addition to nvml_wide_test.cpp: faults of one GPU, energy across a change of the limit, callers
// that are not root.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "sim/faults.hpp"
#include "sim/node.hpp"
#include "sim/nvml/library.hpp"
#include "sim/nvml/test_library.hpp"
#include "sim/nvml/wide.hpp"

namespace headgate::sim {
namespace {

using namespace abi;  // NOLINT: the types keep the driver's names

template <typename Pointer>
Pointer setter(const char* name) {
  static void* library = nvml::load_with_all_names();
  return library == nullptr ? nullptr : reinterpret_cast<Pointer>(::dlsym(library, name));
}
#define CALL(name) setter<decltype(&headgate::sim::nvml::name)>(#name)

class Setters : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "headgate-setters-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    ::setenv("HEADGATE_SIM_DIR", directory_.c_str(), 1);
  }
  void TearDown() override {
    while (CALL(nvmlShutdown)() == NVML_SUCCESS) {
    }
    std::filesystem::remove_all(directory_);
  }
  void open(const Profile& profile) {
    ASSERT_TRUE(create_node(directory_, profile));
    ASSERT_EQ(CALL(nvmlInit_v2)(), NVML_SUCCESS);
    for (unsigned i = 0; i < profile.count; ++i)
      ASSERT_EQ(CALL(nvmlDeviceGetHandleByIndex_v2)(i, &devices_[i]), NVML_SUCCESS);
  }
  static unsigned limit_of(nvmlDevice_t device) {
    unsigned limit = 0;
    EXPECT_EQ(CALL(nvmlDeviceGetPowerManagementLimit)(device, &limit), NVML_SUCCESS);
    return limit;
  }
  std::string directory_;
  nvmlDevice_t devices_[kMaxDevices] = {};
};

TEST_F(Setters, AFaultOfOneGpuDoesNotAffectOthers) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: the driver lets only root set GPUs";
  open(*find_profile("l40s-x2"));
  ASSERT_TRUE(write_faults(directory_, "nvmlDeviceSetPowerManagementLimit:fail=999:device=1"));
  EXPECT_EQ(CALL(nvmlDeviceSetPowerManagementLimit)(devices_[0], 200'000), NVML_SUCCESS);
  EXPECT_EQ(CALL(nvmlDeviceSetPowerManagementLimit)(devices_[1], 200'000), NVML_ERROR_UNKNOWN);
  EXPECT_EQ(limit_of(devices_[0]), 200'000u);
  EXPECT_EQ(limit_of(devices_[1]), 350'000u);
  EXPECT_EQ(fault_hits(directory_)->at(0), 1u);
  ASSERT_TRUE(write_faults(directory_, "nvmlDeviceSetPowerManagementLimit:fail=999"));
  EXPECT_EQ(CALL(nvmlDeviceSetPowerManagementLimit)(devices_[0], 210'000), NVML_ERROR_UNKNOWN) << "without a GPU: all";
}

TEST_F(Setters, ALimitKeepsTheEarlierEnergy) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: the driver lets only root set GPUs";
  open(*find_profile("l40s-x2"));
  {
    auto node = Node::open_existing(directory_);
    ASSERT_TRUE(node);
    (*node)->state().devices[0].busy_ns = 100'000'000'000;  // 100 s at 350 W
  }
  const auto energy = [&] {
    unsigned long long mj = 0;
    EXPECT_EQ(CALL(nvmlDeviceGetTotalEnergyConsumption)(devices_[0], &mj), NVML_SUCCESS);
    return mj;
  };
  const auto before = energy();
  ASSERT_EQ(CALL(nvmlDeviceSetPowerManagementLimit)(devices_[0], 100'000), NVML_SUCCESS);
  EXPECT_GE(energy(), before) << "at 100 W those 100 s would have been 25 kJ less";
}

TEST_F(Setters, AreOpenToAllUsersIfTheProfileSaysSo) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  Profile profile = *find_profile("tiny");
  for (const std::uint32_t open_to_all : {0u, 1u}) {
    profile.open_setters = open_to_all;
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directory(directory_);
    ASSERT_TRUE(create_node(directory_, profile));
    ASSERT_EQ(CALL(nvmlInit_v2)(), NVML_SUCCESS);
    ASSERT_EQ(CALL(nvmlDeviceGetHandleByIndex_v2)(0, devices_), NVML_SUCCESS);
    const pid_t child = ::fork();
    if (child == 0) {
      const bool other = ::setgid(65534) == 0 && ::setuid(65534) == 0;
      ::_exit(other ? static_cast<int>(CALL(nvmlDeviceSetPowerManagementLimit)(devices_[0], 50'000)) : 99);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(open_to_all == 1 ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION));
    ASSERT_EQ(CALL(nvmlShutdown)(), NVML_SUCCESS);
  }
}

// A cgroup of version 2 in which this process is; empty if the machine has none.
std::string cgroup_directory() {
  for (const char* mount : {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"})
    if (std::filesystem::exists(std::string(mount) + "/cgroup.controllers")) return mount;
  return {};
}

TEST_F(Setters, AMemoryLimitHoldsTheProcessesOfItsCgroupAlone) {
  const std::string mount = cgroup_directory();
  const std::string group = mount + "/headgate-limit-test-" + std::to_string(::getpid());
  if (::geteuid() != 0 || mount.empty() || ::mkdir(group.c_str(), 0755) != 0)
    GTEST_SKIP() << "this machine makes no cgroups";
  open(*find_profile("h200-r615"));
  nvmlSetMemoryLimits_v1_t wanted{.nameSpace = group.c_str(), .softLimit = 1 << 20, .hardLimit = 2 << 20};
  EXPECT_EQ(CALL(nvmlDeviceSetMemoryLimits_v1)(devices_[0], &wanted), NVML_SUCCESS);
  nvmlGetMemoryLimits_v1_t got{.nameSpace = group.c_str(), .softLimit = 0, .hardLimit = 0, .currentUsed = 9};
  EXPECT_EQ(CALL(nvmlDeviceGetMemoryLimits_v1)(devices_[0], &got), NVML_SUCCESS);
  EXPECT_EQ(got.softLimit, 1u << 20);
  EXPECT_EQ(got.hardLimit, 2u << 20);
  EXPECT_EQ(got.currentUsed, 0u);
  const auto takes = [&](const std::string& where, std::uint64_t bytes) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::ofstream(where + "/cgroup.procs") << 0 << std::flush;
      auto node = Node::open_existing(directory_);
      if (!node || !(*node)->attach()) ::_exit(2);
      Node::Locked locked(**node);
      locked.advance();
      ::_exit(locked->reserve(locked->account((*node)->process(), 0), bytes) ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(takes(group, 2 << 20), 0);
  EXPECT_EQ(takes(group, (2 << 20) + 1), 1);
  EXPECT_EQ(takes(mount, (2 << 20) + 1), 0) << "outside";
  wanted.softLimit = 0;
  wanted.hardLimit = NVML_DEVICE_MEMORY_LIMIT_MAX;
  EXPECT_EQ(CALL(nvmlDeviceSetMemoryLimits_v1)(devices_[0], &wanted), NVML_SUCCESS);
  EXPECT_EQ(takes(group, 1 << 30), 0);
  wanted.nameSpace = directory_.c_str();
  EXPECT_EQ(CALL(nvmlDeviceSetMemoryLimits_v1)(devices_[0], &wanted), NVML_ERROR_NOT_FOUND) << "no cgroup";
  EXPECT_EQ(::rmdir(group.c_str()), 0);
}

}  // namespace
}  // namespace headgate::sim
