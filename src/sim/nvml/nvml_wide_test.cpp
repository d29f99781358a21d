// Tests the wide part of the built libnvidia-ml.so.1: setters and getters, events, accounting, monitoring, versions of
// structs.
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
#include "sim/nvml/test_library.hpp"
#include "sim/nvml/wide.hpp"
#include "sim/truth.hpp"

namespace headgate::sim {
namespace {

using namespace abi;  // NOLINT: the types keep the driver's names

template <typename Pointer>
Pointer find(const char* name) {
  static void* library = nvml::load_with_all_names();
  auto found = library == nullptr ? nullptr : reinterpret_cast<Pointer>(::dlsym(library, name));
  if (found == nullptr) throw std::runtime_error(std::string(name) + " is not exported");
  return found;
}
// Finds the function with the type of its declaration.
#define NVML(name) find<decltype(&headgate::sim::nvml::name)>(#name)

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

TEST_F(NvmlWide, SettingsAreReadBackAndEachSetterIsRecorded) {
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

TEST_F(NvmlWide, SettersOfSeveralProcessesAreRecordedInOrder) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  constexpr unsigned kProcesses = 4, kCalls = 25;
  ASSERT_TRUE(create_node(directory_, *find_profile("tiny")));
  std::vector<pid_t> children;
  for (unsigned p = 0; p < kProcesses; ++p) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    nvmlDevice_t device = nullptr;
    bool well = NVML(nvmlInit_v2)() == NVML_SUCCESS && NVML(nvmlDeviceGetHandleByIndex_v2)(0, &device) == NVML_SUCCESS;
    for (unsigned i = 0; i < kCalls && well; ++i)
      well = NVML(nvmlDeviceSetPowerManagementLimit)(device, 40'000 + p * 1'000 + i) == NVML_SUCCESS;
    ::_exit(well ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  auto node = Node::open_existing(directory_);
  ASSERT_TRUE(node);
  const State& state = (*node)->state();
  ASSERT_EQ(state.nvml_setting_count, kProcesses * kCalls);
  for (unsigned p = 0; p < kProcesses; ++p) {
    unsigned next = 0;  // each process's calls are recorded in order, none lost or torn
    for (unsigned i = 0; i < kProcesses * kCalls; ++i) {
      const NvmlSetting& one = state.nvml_settings[i];
      if (one.pid == children[p]) {
        EXPECT_EQ(one.value, 40'000 + p * 1'000 + next++);
      }
    }
    EXPECT_EQ(next, kCalls);
  }
  EXPECT_EQ(state.nvml[0].power_limit_mw, state.nvml_settings[kProcesses * kCalls - 1].value);
}

TEST_F(NvmlWide, EccIsPendingUntilTheNodeIsReset) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const nvmlDevice_t device = open("tiny");
  nvmlEnableState_t current{}, pending{};
  EXPECT_EQ(NVML(nvmlDeviceSetEccMode)(device, NVML_FEATURE_DISABLED), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlDeviceGetEccMode)(device, &current, &pending), NVML_SUCCESS);
  EXPECT_TRUE(current == NVML_FEATURE_ENABLED && pending == NVML_FEATURE_DISABLED);
  auto node = Node::open_existing(directory_);
  ASSERT_TRUE(node);
  Node::Locked(**node)->reset_accounts();
  EXPECT_EQ(NVML(nvmlDeviceGetEccMode)(device, &current, &pending), NVML_SUCCESS);
  EXPECT_TRUE(current == NVML_FEATURE_DISABLED && pending == NVML_FEATURE_DISABLED);
}

TEST_F(NvmlWide, AnInvalidOrEndedHandleIsRefused) {
  const nvmlDevice_t device = open("h200");
  nvmlEventSet_t set = nullptr;
  nvmlGpmSample_t sample = nullptr;
  nvmlEventData_t data{};
  EXPECT_EQ(NVML(nvmlEventSetCreate)(&set), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlEventSetFree)(set), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlEventSetFree)(set), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlEventSetWait_v2)(set, &data, 0), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlDeviceRegisterEvents)(device, nvmlEventTypeXidCriticalError, set), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlGpmSampleAlloc)(&sample), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlGpmSampleFree)(sample), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlGpmSampleFree)(sample), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlGpmSampleGet)(device, sample), NVML_ERROR_INVALID_ARGUMENT);
}

// The XID comes from a kernel, not from a fault rule.
TEST_F(NvmlWide, AFaultingKernelIsAnXidForItsListeners) {
  const nvmlDevice_t device = open("tiny");
  nvmlEventSet_t set = nullptr;
  nvmlEventData_t data{};
  EXPECT_EQ(NVML(nvmlEventSetCreate)(&set), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlDeviceRegisterEvents)(device, nvmlEventTypeXidCriticalError, set), NVML_SUCCESS);
  auto node = Node::open_existing(directory_);
  ASSERT_TRUE(node);
  ASSERT_TRUE((*node)->attach());
  for (const std::uint32_t error : {700u, 710u}) {
    Node::Locked locked(**node);
    locked->fail_context(locked->create_context((*node)->process(), 0), error);
  }
  for (const unsigned xid : {31u, 43u}) {
    EXPECT_EQ(NVML(nvmlEventSetWait_v2)(set, &data, 1000), NVML_SUCCESS);
    EXPECT_EQ(data.eventData, xid);
  }
  EXPECT_EQ(NVML(nvmlEventSetWait_v2)(set, &data, 0), NVML_ERROR_TIMEOUT);
  (*node)->detach();
  EXPECT_EQ(NVML(nvmlEventSetFree)(set), NVML_SUCCESS);
}

TEST_F(NvmlWide, OnlyRootMaySetValues) {
  if (::getuid() != 0) GTEST_SKIP() << "only root can become another user";
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

TEST_F(NvmlWide, AnXidReachesEachListenerOnce) {
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

TEST_F(NvmlWide, AccountingReportsEndedProcessesWhileItIsOn) {
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

TEST_F(NvmlWide, MonitoringNeedsHopperAndMigIsOff) {
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

TEST_F(NvmlWide, TwoSamplesOfAnIdleHopperShowIdle) {
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

TEST_F(NvmlWide, MissingFieldsAreEachNotSupported) {
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

TEST_F(NvmlWide, AnH200HasItsLinksUpAndWithoutErrors) {
  const nvmlDevice_t device = open("h200");
  nvmlFieldValue_t links{};
  links.fieldId = 91;
  ASSERT_EQ(NVML(nvmlDeviceGetFieldValues)(device, 1, &links), NVML_SUCCESS);
  ASSERT_EQ(links.value.uiVal, 18U);
  for (unsigned link = 0; link < links.value.uiVal; ++link) {
    nvmlEnableState_t active = NVML_FEATURE_DISABLED;
    EXPECT_EQ(NVML(nvmlDeviceGetNvLinkState)(device, link, &active), NVML_SUCCESS);
    EXPECT_EQ(active, NVML_FEATURE_ENABLED);
    for (unsigned kind = 0; kind < 5; ++kind) {
      unsigned long long errors = 9;
      EXPECT_EQ(NVML(nvmlDeviceGetNvLinkErrorCounter)(device, link, kind, &errors), NVML_SUCCESS);
      EXPECT_EQ(errors, 0U);
    }
  }
  nvmlEnableState_t active{};
  unsigned long long errors = 0;
  EXPECT_EQ(NVML(nvmlDeviceGetNvLinkState)(device, 18, &active), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlDeviceGetNvLinkState)(device, 0, nullptr), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlDeviceGetNvLinkErrorCounter)(device, 0, 5, &errors), NVML_ERROR_INVALID_ARGUMENT);
  nvmlFieldValue_t data[4]{};
  for (const unsigned i : {0, 1, 2, 3}) data[i].fieldId = 138 + i % 2;
  data[0].scopeId = ~0U, data[1].scopeId = 17, data[2].scopeId = 18;
  ASSERT_EQ(NVML(nvmlDeviceGetFieldValues)(device, 4, data), NVML_SUCCESS);
  for (const int i : {0, 1, 3}) {
    EXPECT_EQ(data[i].nvmlReturn, NVML_SUCCESS) << i;
    EXPECT_EQ(data[i].valueType, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG);
    EXPECT_EQ(data[i].value.ullVal, 0U);
  }
  EXPECT_EQ(data[2].nvmlReturn, NVML_ERROR_INVALID_ARGUMENT) << "there is no such link";
}

TEST_F(NvmlWide, LinksAreNotSupportedByASmallCard) {
  const nvmlDevice_t device = open("tiny");
  nvmlEnableState_t active{};
  unsigned long long errors = 0;
  EXPECT_EQ(NVML(nvmlDeviceGetNvLinkState)(device, 0, &active), NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(NVML(nvmlDeviceGetNvLinkErrorCounter)(device, 0, 0, &errors), NVML_ERROR_NOT_SUPPORTED);
  nvmlFieldValue_t data{};
  data.fieldId = 138, data.scopeId = ~0U;
  ASSERT_EQ(NVML(nvmlDeviceGetFieldValues)(device, 1, &data), NVML_SUCCESS);
  EXPECT_EQ(data.nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
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

TEST_F(NvmlWide, ThePrivateTableSetsAndListsTheLengthOfTimeSlices) {
  const nvmlDevice_t device = open("tiny");
  const void* table = nullptr;
  ASSERT_EQ(NVML(nvmlInternalGetExportTable)(&table, kNvmlExportTableId), NVML_SUCCESS);
  const auto slot = [table](unsigned number) {
    return const_cast<void*>(static_cast<const void* const*>(table)[number]);
  };
  const auto set = reinterpret_cast<NvmlExportedSetPolicy*>(slot(kNvmlExportedSetPolicy));
  const auto list = reinterpret_cast<NvmlExportedListPolicies*>(slot(kNvmlExportedListPolicies));
  const auto length = [&] {
    NvmlExportedPolicies policies{};
    EXPECT_EQ(list(device, &policies), NVML_SUCCESS);
    EXPECT_EQ(policies.count, 1u);
    EXPECT_EQ(policies.rows[0].policy, 0u);
    return policies.rows[0].value;
  };
  EXPECT_EQ(length(), 0u);
  const NvmlExportedPolicy longer{.policy = 0, .value = 3}, beyond{.policy = 0, .value = 4},
      other{.policy = 1, .value = 1};
  if (::geteuid() != 0) {
    EXPECT_EQ(set(device, &longer), NVML_ERROR_NO_PERMISSION);
    return;
  }
  EXPECT_EQ(set(device, &longer), NVML_SUCCESS);
  EXPECT_EQ(length(), 3u);
  EXPECT_EQ(set(device, &beyond), NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(set(device, &other), NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(length(), 3u);
}

// An H200 cut into 3g.71gb and 1g.18gb.
class NvmlMig : public NvmlWide {
 protected:
  void SetUp() override {
    NvmlWide::SetUp();
    Profile profile = *find_profile("h200");
    profile.count = 2;
    profile.mig_count = 2;
    profile.mig[0] = {3, 4};
    profile.mig[1] = {1, 1};
    ASSERT_TRUE(create_node(directory_, profile));
    ASSERT_EQ(NVML(nvmlInit_v2)(), NVML_SUCCESS);
    ASSERT_EQ(NVML(nvmlDeviceGetHandleByIndex_v2)(1, &gpu_), NVML_SUCCESS);
    for (unsigned i = 0; i < 2; ++i)
      ASSERT_EQ(NVML(nvmlDeviceGetMigDeviceHandleByIndex)(gpu_, i, &slices_[i]), NVML_SUCCESS);
  }
  static std::string uuid_of(nvmlDevice_t device) {
    char text[96] = "";
    EXPECT_EQ(NVML(nvmlDeviceGetUUID)(device, text, sizeof text), NVML_SUCCESS);
    return text;
  }
  nvmlDevice_t gpu_ = nullptr, slices_[2] = {};
};

TEST_F(NvmlMig, ADividedGpuShowsItsSlicesAndTheGapsAfterThem) {
  unsigned current = 0, pending = 0, most = 0;
  EXPECT_EQ(NVML(nvmlDeviceGetMigMode)(gpu_, &current, &pending), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlDeviceGetMaxMigDeviceCount)(gpu_, &most), NVML_SUCCESS);
  EXPECT_EQ(current, 1U);
  EXPECT_EQ(pending, 1U);
  EXPECT_EQ(most, 7U);
  nvmlDevice_t none = nullptr;
  EXPECT_EQ(NVML(nvmlDeviceGetMigDeviceHandleByIndex)(gpu_, 2, &none), NVML_ERROR_NOT_FOUND);
  EXPECT_EQ(NVML(nvmlDeviceGetMigDeviceHandleByIndex)(gpu_, 6, &none), NVML_ERROR_NOT_FOUND);
  EXPECT_EQ(NVML(nvmlDeviceGetMigDeviceHandleByIndex)(gpu_, 7, &none), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlDeviceGetMigDeviceHandleByIndex)(slices_[0], 0, &none), NVML_ERROR_NOT_SUPPORTED);
}

TEST_F(NvmlMig, ASliceIsFoundByHandleUuidAndItsGpu) {
  for (unsigned i = 0; i < 2; ++i) {
    const nvmlDevice_t slice = slices_[i];
    unsigned is_slice = 0, index = 9, gpu_instance = 9, compute_instance = 9;
    nvmlDevice_t parent = nullptr, again = nullptr;
    EXPECT_EQ(NVML(nvmlDeviceIsMigDeviceHandle)(slice, &is_slice), NVML_SUCCESS);
    EXPECT_EQ(NVML(nvmlDeviceGetIndex)(slice, &index), NVML_SUCCESS);
    EXPECT_EQ(NVML(nvmlDeviceGetGpuInstanceId)(slice, &gpu_instance), NVML_SUCCESS);
    EXPECT_EQ(NVML(nvmlDeviceGetComputeInstanceId)(slice, &compute_instance), NVML_SUCCESS);
    EXPECT_EQ(NVML(nvmlDeviceGetDeviceHandleFromMigDeviceHandle)(slice, &parent), NVML_SUCCESS);
    EXPECT_EQ(NVML(nvmlDeviceGetHandleByUUID)(uuid_of(slice).c_str(), &again), NVML_SUCCESS);
    EXPECT_EQ(is_slice, 1U);
    EXPECT_EQ(index, i);
    EXPECT_EQ(gpu_instance, i + 1);
    EXPECT_EQ(compute_instance, 0U);
    EXPECT_EQ(parent, gpu_);
    EXPECT_EQ(again, slice);
    EXPECT_TRUE(uuid_of(slice).starts_with("MIG-"));
  }
  EXPECT_NE(uuid_of(slices_[0]), uuid_of(slices_[1]));
  nvmlDevice_t elsewhere = nullptr, gpu = nullptr, none = nullptr;
  ASSERT_EQ(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &gpu), NVML_SUCCESS);
  ASSERT_EQ(NVML(nvmlDeviceGetMigDeviceHandleByIndex)(gpu, 0, &elsewhere), NVML_SUCCESS);
  EXPECT_NE(uuid_of(elsewhere), uuid_of(slices_[0])) << "of two GPUs that are cut alike";
  EXPECT_EQ(NVML(nvmlDeviceGetHandleByUUID)("MIG-00000000-0000-4000-8000-000000000000", &none), NVML_ERROR_NOT_FOUND);
  unsigned is_slice = 9, id = 9;
  EXPECT_EQ(NVML(nvmlDeviceIsMigDeviceHandle)(gpu, &is_slice), NVML_SUCCESS);
  EXPECT_EQ(is_slice, 0U);
  EXPECT_EQ(NVML(nvmlDeviceGetGpuInstanceId)(gpu, &id), NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(NVML(nvmlDeviceGetDeviceHandleFromMigDeviceHandle)(gpu, &none), NVML_ERROR_INVALID_ARGUMENT);
}

TEST_F(NvmlMig, ASliceReportsNameAndSizeAndNoProcesses) {
  become_tenant(1 << 30);
  char name[96] = "";
  EXPECT_EQ(NVML(nvmlDeviceGetName)(slices_[0], name, sizeof name), NVML_SUCCESS);
  EXPECT_STREQ(name, "NVIDIA H200 MIG 3g.71gb");
  const std::uint64_t half_mib = (141 * 1024 - 620) / 2, eighth_mib = (141 * 1024 - 620) / 8;
  nvmlMemory_t memory{};
  EXPECT_EQ(NVML(nvmlDeviceGetMemoryInfo)(slices_[0], &memory), NVML_SUCCESS);
  EXPECT_EQ(memory.total, half_mib << 20);
  EXPECT_EQ(memory.used, 0U);
  EXPECT_EQ(memory.free, memory.total);
  nvmlMemory_v2_t split{};
  split.version = sizeof split | 2U << 24;
  EXPECT_EQ(NVML(nvmlDeviceGetMemoryInfo_v2)(slices_[1], &split), NVML_SUCCESS);
  EXPECT_EQ(split.total, eighth_mib << 20);
  EXPECT_EQ(split.free, split.total);
  nvmlBAR1Memory_t window{};
  EXPECT_EQ(NVML(nvmlDeviceGetBAR1MemoryInfo)(slices_[1], &window), NVML_SUCCESS);
  EXPECT_EQ(window.bar1Total, 32ULL << 30);
  EXPECT_EQ(window.bar1Free, window.bar1Total);
  nvmlDeviceAttributes_t told{};
  EXPECT_EQ(NVML(nvmlDeviceGetAttributes_v2)(slices_[1], &told), NVML_SUCCESS);
  EXPECT_EQ(told.multiprocessorCount, 16U);
  EXPECT_EQ(told.gpuInstanceSliceCount, 1U);
  EXPECT_EQ(told.computeInstanceSliceCount, 1U);
  EXPECT_EQ(told.memorySizeMB, eighth_mib);
  nvmlDeviceAttributes_v1_t older{};
  EXPECT_EQ(NVML(nvmlDeviceGetAttributes)(slices_[0], &older), NVML_SUCCESS);
  EXPECT_EQ(older.multiprocessorCount, 48U);
  EXPECT_EQ(NVML(nvmlDeviceGetAttributes_v2)(gpu_, &told), NVML_ERROR_NOT_SUPPORTED);
  unsigned count = 0;
  EXPECT_EQ(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(slices_[0], &count, nullptr), NVML_SUCCESS);
  EXPECT_EQ(count, 0U);
}

TEST_F(NvmlMig, ASliceRefusesQueriesForWholeGpus) {
  nvmlUtilization_t load{};
  unsigned minor = 0, power = 0, current = 0, pending = 0;
  EXPECT_EQ(NVML(nvmlDeviceGetUtilizationRates)(slices_[0], &load), NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(NVML(nvmlDeviceGetMinorNumber)(slices_[0], &minor), NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(NVML(nvmlDeviceGetPowerUsage)(slices_[0], &power), NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(NVML(nvmlDeviceGetMigMode)(slices_[0], &current, &pending), NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(NVML(nvmlDeviceSetPowerManagementLimit)(slices_[0], 400'000), NVML_ERROR_NOT_SUPPORTED);
  unsigned long long errors = 9;
  EXPECT_EQ(NVML(nvmlDeviceGetMemoryErrorCounter)(slices_[0], 1, 0, 7, &errors), NVML_SUCCESS);
  EXPECT_EQ(errors, 0U);
  EXPECT_EQ(NVML(nvmlDeviceGetMemoryErrorCounter)(slices_[0], 1, 0, 2, &errors), NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(NVML(nvmlDeviceGetMemoryErrorCounter)(slices_[0], 0, 0, 7, &errors), NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(NVML(nvmlDeviceIsMigDeviceHandle)(slices_[0], nullptr), NVML_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace headgate::sim
