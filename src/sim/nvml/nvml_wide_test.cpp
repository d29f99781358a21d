// The wide part of the built libnvidia-ml.so.1: what is set is what is told, events, accounting, monitoring, versions of structs.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "sim/faults.hpp"
#include "sim/node.hpp"
#include "sim/nvml/library.hpp"
#include "sim/nvml/wide.hpp"
#include "sim/truth.hpp"

namespace headgate::sim {
namespace {

using namespace abi;  // NOLINT: the types keep the driver's names

template <typename Pointer>
Pointer find(const char* name) {
  static void* library = ::dlopen(HEADGATE_SIM_NVML, RTLD_NOW | RTLD_LOCAL);
  auto found = library == nullptr ? nullptr : reinterpret_cast<Pointer>(::dlsym(library, name));
  if (found == nullptr) throw std::runtime_error(std::string(name) + " is not exported");
  return found;
}
// By its declaration's type.
#define NVML(name) find<decltype(&abi::name)>(#name)

class NvmlWide : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "headgate-nvml-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    ::setenv("HEADGATE_SIM_DIR", directory_.c_str(), 1);
  }
  void TearDown() override {
    while (NVML(nvmlShutdown)() == NVML_SUCCESS) {
    }
    node_.reset();
    std::filesystem::remove_all(directory_);
  }
  nvmlDevice_t open(const char* profile, unsigned index = 0) {
    EXPECT_TRUE(create_node(directory_, *find_profile(profile)));
    EXPECT_EQ(NVML(nvmlInit_v2)(), NVML_SUCCESS);
    nvmlDevice_t handle = nullptr;
    EXPECT_EQ(NVML(nvmlDeviceGetHandleByIndex_v2)(index, &handle), NVML_SUCCESS);
    return handle;
  }
  void become_tenant(std::uint64_t bytes) {
    auto opened = Node::open_existing(directory_);
    ASSERT_TRUE(opened);
    node_ = std::move(*opened);
    ASSERT_TRUE(node_->attach());
    Node::Locked locked(*node_);
    const std::uint32_t account = locked->account(node_->process(), 0);
    ASSERT_TRUE(locked->reserve_context_bytes(account, node_->profile().context_bytes));
    ASSERT_NE(locked->create_context(node_->process(), 0), kNone);
    ASSERT_TRUE(locked->reserve(account, bytes));
  }

  std::string directory_;
  std::unique_ptr<Node> node_;
};

TEST_F(NvmlWide, WhatIsSetIsWhatIsToldAndEveryCallOfASetterIsOnRecord) {
  const nvmlDevice_t device = open("h200");
  EXPECT_EQ(NVML(nvmlDeviceSetPowerManagementLimit)(device, 400'000), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlDeviceSetPowerManagementLimit)(device, 199'999), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlDeviceSetPowerManagementLimit)(device, 700'001), NVML_ERROR_INVALID_ARGUMENT);
  unsigned limit = 0, enforced = 0;
  EXPECT_EQ(NVML(nvmlDeviceGetPowerManagementLimit)(device, &limit), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlDeviceGetEnforcedPowerLimit)(device, &enforced), NVML_SUCCESS);
  EXPECT_EQ(limit, 400'000U);
  EXPECT_EQ(enforced, 400'000U);

  EXPECT_EQ(NVML(nvmlDeviceSetComputeMode)(device, static_cast<nvmlComputeMode_t>(3)), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlDeviceSetComputeMode)(device, static_cast<nvmlComputeMode_t>(4)), NVML_ERROR_INVALID_ARGUMENT);
  nvmlComputeMode_t mode = NVML_COMPUTEMODE_DEFAULT;
  EXPECT_EQ(NVML(nvmlDeviceGetComputeMode)(device, &mode), NVML_SUCCESS);
  EXPECT_EQ(mode, 3U);

  EXPECT_EQ(NVML(nvmlDeviceSetGpuLockedClocks)(device, 900, 600), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlDeviceSetGpuLockedClocks)(device, 900, 900), NVML_SUCCESS);
  unsigned clock = 0;
  EXPECT_EQ(NVML(nvmlDeviceGetClockInfo)(device, NVML_CLOCK_SM, &clock), NVML_SUCCESS);
  EXPECT_EQ(clock, 900U);
  EXPECT_EQ(NVML(nvmlDeviceResetGpuLockedClocks)(device), NVML_SUCCESS);

  const auto truth = read_truth(directory_);
  ASSERT_TRUE(truth);
  ASSERT_EQ(truth->settings.size(), 8U);
  EXPECT_EQ(truth->settings[0].function, "nvmlDeviceSetPowerManagementLimit");
  EXPECT_EQ(truth->settings[0].value, 400'000U);
  EXPECT_EQ(truth->settings[0].answer, NVML_SUCCESS);
  EXPECT_EQ(truth->settings[0].pid, ::getpid());
  EXPECT_EQ(truth->settings[1].answer, NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(truth->settings[6].function, "nvmlDeviceSetGpuLockedClocks");
}

TEST_F(NvmlWide, WhoIsNotRootMaySetNothing) {
  if (::getuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  const nvmlDevice_t device = open("h200");
  const pid_t child = ::fork();
  if (child == 0) {
    const bool changed = ::setresuid(65534, 65534, 65534) == 0;
    ::_exit(changed ? static_cast<int>(NVML(nvmlDeviceSetPowerManagementLimit)(device, 400'000)) : 99);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), NVML_ERROR_NO_PERMISSION);
  unsigned limit = 0;
  EXPECT_EQ(NVML(nvmlDeviceGetPowerManagementLimit)(device, &limit), NVML_SUCCESS);
  EXPECT_EQ(limit, 700'000U);
}

TEST_F(NvmlWide, AStructOfAnotherVersionIsRefusedNotFilled) {
  const nvmlDevice_t device = open("h200");
  nvmlMemory_v2_t memory{};
  EXPECT_EQ(NVML(nvmlDeviceGetMemoryInfo_v2)(device, &memory), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  nvmlProcessDetailList_t details{};
  EXPECT_EQ(NVML(nvmlDeviceGetRunningProcessDetailList)(device, &details), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  nvmlProcessesUtilizationInfo_t utilisation{};
  EXPECT_EQ(NVML(nvmlDeviceGetProcessesUtilizationInfo)(device, &utilisation), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  nvmlGpmSupport_t support{};
  EXPECT_EQ(NVML(nvmlGpmQueryDeviceSupport)(device, &support), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  nvmlPowerValue_v2_t power{};
  EXPECT_EQ(NVML(nvmlDeviceSetPowerManagementLimit_v2)(device, &power), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

TEST_F(NvmlWide, AnXidReachesWhoRegisteredForItOnce) {
  const nvmlDevice_t device = open("l40s-x2", 1);
  nvmlEventSet_t set = nullptr;
  ASSERT_EQ(NVML(nvmlEventSetCreate)(&set), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlDeviceRegisterEvents)(device, 1, set), NVML_ERROR_NOT_SUPPORTED);
  ASSERT_EQ(NVML(nvmlDeviceRegisterEvents)(device, nvmlEventTypeXidCriticalError, set), NVML_SUCCESS);
  nvmlEventData_t data{};
  EXPECT_EQ(NVML(nvmlEventSetWait_v2)(set, &data, 0), NVML_ERROR_TIMEOUT);
  ASSERT_TRUE(write_faults(directory_, "device0:xid=13"));
  EXPECT_EQ(NVML(nvmlEventSetWait_v2)(set, &data, 0), NVML_ERROR_TIMEOUT) << "another device's";
  std::thread operator_([&] { EXPECT_TRUE(write_faults(directory_, "device1:xid=79")); });
  EXPECT_EQ(NVML(nvmlEventSetWait_v2)(set, &data, 60'000), NVML_SUCCESS);
  operator_.join();
  EXPECT_EQ(data.device, device);
  EXPECT_EQ(data.eventType, nvmlEventTypeXidCriticalError);
  EXPECT_EQ(data.eventData, 79U);
  EXPECT_EQ(NVML(nvmlEventSetWait_v2)(set, &data, 0), NVML_ERROR_TIMEOUT);
  EXPECT_EQ(NVML(nvmlEventSetFree)(set), NVML_SUCCESS);
}

TEST_F(NvmlWide, AccountingTellsOfTheDeadWhileItIsOn) {
  const nvmlDevice_t device = open("tiny");
  unsigned count = 0;
  EXPECT_EQ(NVML(nvmlDeviceGetAccountingPids)(device, &count, nullptr), NVML_ERROR_NOT_SUPPORTED);
  ASSERT_EQ(NVML(nvmlDeviceSetAccountingMode)(device, NVML_FEATURE_ENABLED), NVML_SUCCESS);
  become_tenant(5 << 20);
  EXPECT_EQ(NVML(nvmlDeviceGetAccountingPids)(device, &count, nullptr), NVML_ERROR_INSUFFICIENT_SIZE);
  ASSERT_EQ(count, 1U);
  nvmlAccountingStats_t stats{};
  ASSERT_EQ(NVML(nvmlDeviceGetAccountingStats)(device, static_cast<unsigned>(::getpid()), &stats), NVML_SUCCESS);
  EXPECT_EQ(stats.isRunning, 1U);
  EXPECT_GE(stats.maxMemoryUsage, 5U << 20);
  node_->detach();
  ASSERT_EQ(NVML(nvmlDeviceGetAccountingStats)(device, static_cast<unsigned>(::getpid()), &stats), NVML_SUCCESS);
  EXPECT_EQ(stats.isRunning, 0U);
  EXPECT_GE(stats.maxMemoryUsage, 5U << 20);
  ASSERT_EQ(NVML(nvmlDeviceClearAccountingPids)(device), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlDeviceGetAccountingStats)(device, static_cast<unsigned>(::getpid()), &stats),
            NVML_ERROR_NOT_FOUND);
}

TEST_F(NvmlWide, MonitoringIsHoppersAndMigIsOff) {
  nvmlDevice_t device = open("l40s-x2");
  nvmlGpmSupport_t support{.version = 1, .isSupportedDevice = 7};
  EXPECT_EQ(NVML(nvmlGpmQueryDeviceSupport)(device, &support), NVML_SUCCESS);
  EXPECT_EQ(support.isSupportedDevice, 0U);
  nvmlGpmSample_t sample = nullptr;
  ASSERT_EQ(NVML(nvmlGpmSampleAlloc)(&sample), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlGpmSampleGet)(device, sample), NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(NVML(nvmlGpmSampleFree)(sample), NVML_SUCCESS);
  unsigned instances = 9;
  EXPECT_EQ(NVML(nvmlDeviceGetMaxMigDeviceCount)(device, &instances), NVML_SUCCESS);
  EXPECT_EQ(instances, 0U);
  nvmlDevice_t instance = nullptr;
  EXPECT_EQ(NVML(nvmlDeviceGetMigDeviceHandleByIndex)(device, 0, &instance), NVML_ERROR_NOT_SUPPORTED);
}

TEST_F(NvmlWide, TwoSamplesOfAnIdleHopperSayIdle) {
  const nvmlDevice_t device = open("h200");
  nvmlGpmMetricsGet_t get{};
  get.version = 1;
  get.numMetrics = 3;
  ASSERT_EQ(NVML(nvmlGpmSampleAlloc)(&get.sample1), NVML_SUCCESS);
  ASSERT_EQ(NVML(nvmlGpmSampleAlloc)(&get.sample2), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlGpmMetricsGet)(&get), NVML_ERROR_INVALID_ARGUMENT) << "nothing was sampled";
  ASSERT_EQ(NVML(nvmlGpmSampleGet)(device, get.sample1), NVML_SUCCESS);
  ASSERT_EQ(NVML(nvmlGpmSampleGet)(device, get.sample2), NVML_SUCCESS);
  get.metrics[0].metricId = 1;
  get.metrics[1].metricId = 2;
  get.metrics[2].metricId = 5;
  ASSERT_EQ(NVML(nvmlGpmMetricsGet)(&get), NVML_SUCCESS);
  EXPECT_EQ(get.metrics[0].nvmlReturn, NVML_SUCCESS);
  EXPECT_EQ(get.metrics[0].value, 0.0);
  EXPECT_EQ(get.metrics[1].value, 0.0);
  EXPECT_EQ(get.metrics[2].nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
  NVML(nvmlGpmSampleFree)(get.sample1);
  NVML(nvmlGpmSampleFree)(get.sample2);
}

TEST_F(NvmlWide, FieldsThatACardDoesNotHaveSayNotSupportedEachForItself) {
  const nvmlDevice_t device = open("h200");
  nvmlFieldValue_t fields[3]{};
  fields[0].fieldId = 83;  // energy
  fields[1].fieldId = 9999;
  fields[2].fieldId = 186;  // power now
  ASSERT_EQ(NVML(nvmlDeviceGetFieldValues)(device, 3, fields), NVML_SUCCESS);
  EXPECT_EQ(fields[0].nvmlReturn, NVML_SUCCESS);
  EXPECT_EQ(fields[0].valueType, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG);
  EXPECT_EQ(fields[1].nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(fields[2].value.uiVal, 76'000U);
  EXPECT_EQ(NVML(nvmlDeviceGetFieldValues)(device, 0, fields), NVML_ERROR_INVALID_ARGUMENT);
}

TEST_F(NvmlWide, ThePrivateTableListsWhatThePublicListsDo) {
  const nvmlDevice_t device = open("tiny");
  become_tenant(1 << 20);
  const void* table = nullptr;
  unsigned char other[16] = {};
  EXPECT_NE(NVML(nvmlInternalGetExportTable)(&table, other), NVML_SUCCESS);
  ASSERT_EQ(NVML(nvmlInternalGetExportTable)(&table, kNvmlExportTableId), NVML_SUCCESS);
  std::size_t bytes = 0;
  std::memcpy(&bytes, table, sizeof bytes);
  ASSERT_GT(bytes, 8 * (kNvmlExportedLists + 2));
  auto* list = reinterpret_cast<NvmlExportedProcessList*>(
      const_cast<void*>(static_cast<const void* const*>(table)[kNvmlExportedLists]));
  const auto rows = std::make_unique<NvmlExportedProcess[]>(2);
  unsigned count = 2;
  ASSERT_EQ(list(device, &count, rows.get()), NVML_SUCCESS);
  ASSERT_EQ(count, 1U);
  EXPECT_EQ(rows[0].detail.pid, static_cast<unsigned>(::getpid()));
  EXPECT_NE(std::strstr(rows[0].name, "nvml_wide_t"), nullptr) << rows[0].name;
  nvmlProcessInfo_t listed{};
  count = 1;
  ASSERT_EQ(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, &listed), NVML_SUCCESS);
  EXPECT_EQ(rows[0].detail.usedGpuMemory, listed.usedGpuMemory);
}

}  // namespace
}  // namespace headgate::sim
