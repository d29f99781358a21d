// NVML's setters, in addition to nvml_wide_test.cpp: faults of one GPU, energy across a change of the limit, callers
// that are not root.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

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
#define CALL(name) setter<decltype(&abi::name)>(#name)

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

TEST_F(Setters, AFaultOfOneGpuLeavesTheOthersAlone) {
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

TEST_F(Setters, ALimitKeepsTheEnergyOfBefore) {
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

TEST_F(Setters, AreForAllUsersWhereTheProfileSaysSo) {
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

}  // namespace
}  // namespace headgate::sim
