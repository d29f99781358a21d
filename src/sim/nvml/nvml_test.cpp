// Tests the built libnvidia-ml.so.1 on a node that this test operates like a driver.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>

#include "guest/abi/names.hpp"
#include "guest/abi/nvml.hpp"
#include "sim/faults.hpp"
#include "sim/node.hpp"
#include "sim/nvml/test_library.hpp"

namespace headgate::sim {
namespace {

using namespace abi;  // NOLINT: the types keep the driver's names

void* nvml_library() {
  static void* library = nvml::load_with_all_names();
  return library;
}

template <typename Function>
Function* find(const char* name) {
  auto* found = reinterpret_cast<Function*>(::dlsym(nvml_library(), name));
  if (found == nullptr) throw std::runtime_error(std::string(name) + " is not exported");
  return found;
}
#define NVML(name) find<name##_t>(#name)

class Nvml : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(nvml_library(), nullptr) << ::dlerror();
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

  void open(const char* profile) {
    ASSERT_TRUE(create_node(directory_, *find_profile(profile)));
    ASSERT_EQ(NVML(nvmlInit_v2)(), NVML_SUCCESS);
  }
  nvmlDevice_t device(unsigned index = 0) {
    nvmlDevice_t handle = nullptr;
    EXPECT_EQ(NVML(nvmlDeviceGetHandleByIndex_v2)(index, &handle), NVML_SUCCESS);
    return handle;
  }
  // Makes this process a tenant of the node, with one context and `bytes` allocated on device `index`.
  void become_tenant(std::uint32_t index, std::uint64_t bytes) {
    auto opened = Node::open_existing(directory_);
    ASSERT_TRUE(opened);
    node_ = std::move(*opened);
    ASSERT_TRUE(node_->attach());
    Node::Locked locked(*node_);
    account_ = locked->account(node_->process(), index);
    ASSERT_TRUE(locked->reserve_context_bytes(account_, node_->profile().context_bytes));
    context_ = locked->create_context(node_->process(), index);
    ASSERT_NE(context_, kNone);
    ASSERT_TRUE(locked->reserve(account_, bytes));
  }

  std::string directory_;
  std::unique_ptr<Node> node_;
  std::uint32_t account_ = kNone, context_ = kNone;
};

TEST_F(Nvml, CallsBeforeInitAndAfterTheLastShutdownFail) {
  unsigned count = 7;
  EXPECT_EQ(NVML(nvmlDeviceGetCount_v2)(&count), NVML_ERROR_UNINITIALIZED);
  EXPECT_EQ(NVML(nvmlShutdown)(), NVML_ERROR_UNINITIALIZED);
  open("l40s-x2");
  ASSERT_EQ(NVML(nvmlInitWithFlags)(0), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlShutdown)(), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlDeviceGetCount_v2)(&count), NVML_SUCCESS);
  EXPECT_EQ(count, 2U);
  EXPECT_EQ(NVML(nvmlShutdown)(), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlDeviceGetCount_v2)(&count), NVML_ERROR_UNINITIALIZED);
}

TEST_F(Nvml, CallsWithoutANodeFailAsWithoutADriver) {
  ::unsetenv("HEADGATE_SIM_DIR");
  EXPECT_EQ(NVML(nvmlInit_v2)(), NVML_ERROR_DRIVER_NOT_LOADED);
}

TEST_F(Nvml, ADeviceIsFoundByIndexUuidSerialAndPciAddress) {
  open("l40s-x2");
  char uuid[96] = {}, serial[32] = {};
  nvmlPciInfo_t pci{};
  ASSERT_EQ(NVML(nvmlDeviceGetUUID)(device(1), uuid, sizeof uuid), NVML_SUCCESS);
  const auto there = Node::open_existing(directory_);
  ASSERT_TRUE(there);
  EXPECT_STREQ(uuid, uuid_text((*there)->profile(), 1).data());
  ASSERT_EQ(NVML(nvmlDeviceGetSerial)(device(1), serial, sizeof serial), NVML_SUCCESS);
  ASSERT_EQ(NVML(nvmlDeviceGetPciInfo_v3)(device(1), &pci), NVML_SUCCESS);
  EXPECT_STREQ(pci.busId, "00000000:1F:00.0");
  EXPECT_STREQ(pci.busIdLegacy, "0000:1F:00.0");
  nvmlDevice_t found = nullptr;
  EXPECT_EQ(NVML(nvmlDeviceGetHandleByUUID)(uuid, &found), NVML_SUCCESS);
  EXPECT_EQ(found, device(1));
  EXPECT_EQ(NVML(nvmlDeviceGetHandleBySerial)(serial, &found), NVML_SUCCESS);
  EXPECT_EQ(found, device(1));
  for (const char* address : {static_cast<const char*>(pci.busId), static_cast<const char*>(pci.busIdLegacy), "1f:00.0",
                              "0:1f:0", "0:1f:0.0", "1F:0.0", "0x0:0x1f:0x0.0"}) {
    found = nullptr;
    EXPECT_EQ(NVML(nvmlDeviceGetHandleByPciBusId_v2)(address, &found), NVML_SUCCESS) << address;
    EXPECT_EQ(found, device(1));
  }
  EXPECT_EQ(NVML(nvmlDeviceGetHandleByPciBusId_v2)("2f:00.0", &found), NVML_ERROR_NOT_FOUND);
  for (const char* address : {"nonsense", "", "1f", "1f:00", "1f:00.", "1f:00.1", "1f:00.0 ", "0:1f:00.0.0", ":1f:0.0"})
    EXPECT_EQ(NVML(nvmlDeviceGetHandleByPciBusId_v2)(address, &found), NVML_ERROR_INVALID_ARGUMENT) << address;
  EXPECT_EQ(NVML(nvmlDeviceGetHandleByUUID)("GPU-", &found), NVML_ERROR_NOT_FOUND);
  EXPECT_EQ(NVML(nvmlDeviceGetHandleByIndex_v2)(2, &found), NVML_ERROR_INVALID_ARGUMENT);
}

TEST_F(Nvml, NullAndForeignHandlesAreRefusedNotFollowed) {
  open("tiny");
  unsigned value = 0;
  EXPECT_EQ(NVML(nvmlDeviceGetCount_v2)(nullptr), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlDeviceGetMemoryInfo)(device(), nullptr), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlDeviceGetUtilizationRates)(device(), nullptr), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlDeviceGetPowerUsage)(nullptr, &value), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlDeviceGetPowerUsage)(reinterpret_cast<nvmlDevice_t>(&value), &value), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlDeviceGetHandleByUUID)(nullptr, nullptr), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device(), nullptr, nullptr), NVML_ERROR_INVALID_ARGUMENT);
  char name[8];
  EXPECT_EQ(NVML(nvmlDeviceGetName)(device(), name, sizeof name), NVML_ERROR_INSUFFICIENT_SIZE);
}

TEST_F(Nvml, MemoryAddsUpToTheByteInBothVersions) {
  open("tiny");
  become_tenant(0, 123'456'789);
  const Profile& profile = *find_profile("tiny");
  nvmlMemory_t v1{};
  nvmlMemory_v2_t v2{.version = sizeof(nvmlMemory_v2_t) | 2U << 24, .total = 0, .reserved = 0, .free = 0, .used = 0};
  ASSERT_EQ(NVML(nvmlDeviceGetMemoryInfo)(device(), &v1), NVML_SUCCESS);
  ASSERT_EQ(NVML(nvmlDeviceGetMemoryInfo_v2)(device(), &v2), NVML_SUCCESS);
  EXPECT_EQ(v1.total, profile.memory_bytes);
  EXPECT_EQ(v2.used, 123'456'789 + profile.context_bytes);
  EXPECT_EQ(v2.reserved, profile.reserved_bytes);
  EXPECT_EQ(v2.total, v2.reserved + v2.used + v2.free);
  EXPECT_EQ(v1.used, v2.used + v2.reserved);
  EXPECT_EQ(v1.total, v1.used + v1.free);
  v2.version = sizeof(nvmlMemory_v2_t) | 1U << 24;
  EXPECT_EQ(NVML(nvmlDeviceGetMemoryInfo_v2)(device(), &v2), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

TEST_F(Nvml, EachVersionOfTheProcessListFillsItsOwnLayout) {
  open("l40s-x2");
  become_tenant(1, 1 << 20);
  const std::uint64_t expected = (1 << 20) + find_profile("l40s-x2")->context_bytes;
  unsigned count = 0;
  EXPECT_EQ(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device(1), &count, nullptr), NVML_ERROR_INSUFFICIENT_SIZE);
  EXPECT_EQ(count, 1U);
  nvmlProcessInfo_v1_t v1[3];
  std::memset(v1, 0x77, sizeof v1);
  count = 2;
  ASSERT_EQ(NVML(nvmlDeviceGetComputeRunningProcesses)(device(1), &count, v1), NVML_SUCCESS);
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(v1[0].pid, static_cast<unsigned>(::getpid()));
  EXPECT_EQ(v1[0].usedGpuMemory, expected);
  EXPECT_EQ(v1[1].pid, 0x77777777U) << "it wrote past the entry";
  nvmlProcessInfo_v2_t v2[3];
  for (const char* name : {"nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses_v3"}) {
    std::memset(v2, 0x77, sizeof v2);
    count = 2;
    ASSERT_EQ(find<nvmlDeviceGetComputeRunningProcesses_v3_t>(name)(device(1), &count, v2), NVML_SUCCESS);
    EXPECT_EQ(v2[0].usedGpuMemory, expected);
    EXPECT_EQ(v2[0].gpuInstanceId, ~0U);
    EXPECT_EQ(v2[1].pid, 0x77777777U);
  }
  EXPECT_EQ(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device(0), &(count = 0), nullptr), NVML_SUCCESS)
      << "it has no context there";
  EXPECT_EQ(NVML(nvmlDeviceGetGraphicsRunningProcesses_v3)(device(1), &(count = 2), v2), NVML_SUCCESS);
  EXPECT_EQ(count, 0U);
}

TEST_F(Nvml, AnIdleDeviceShowsIdlePowerClocksAndHeat) {
  open("l40s-x2");
  const Profile& profile = *find_profile("l40s-x2");
  nvmlUtilization_t busy{.gpu = 9, .memory = 9};
  unsigned power = 0, clock = 0, heat = 0;
  ASSERT_EQ(NVML(nvmlDeviceGetUtilizationRates)(device(), &busy), NVML_SUCCESS);
  EXPECT_EQ(busy.gpu, 0U);
  ASSERT_EQ(NVML(nvmlDeviceGetPowerUsage)(device(), &power), NVML_SUCCESS);
  EXPECT_EQ(power, profile.power_idle_mw);
  ASSERT_EQ(NVML(nvmlDeviceGetClockInfo)(device(), NVML_CLOCK_SM, &clock), NVML_SUCCESS);
  EXPECT_EQ(clock, profile.sm_clock_idle_mhz);
  ASSERT_EQ(NVML(nvmlDeviceGetMaxClockInfo)(device(), NVML_CLOCK_SM, &clock), NVML_SUCCESS);
  EXPECT_EQ(clock, profile.sm_clock_max_mhz);
  ASSERT_EQ(NVML(nvmlDeviceGetTemperature)(device(), NVML_TEMPERATURE_GPU, &heat), NVML_SUCCESS);
  EXPECT_EQ(heat, profile.temperature_idle_c);
}

TEST_F(Nvml, LoadShowsInUtilisationPowerAndSamples) {
  open("tiny");
  become_tenant(0, 1 << 20);
  {
    Node::Locked locked(*node_);
    locked.advance();
    Command kernel;
    kernel.amount = 3'600'000'000'000;
    kernel.sms = 1;
    kernel.order = 1;
    kernel.submit_ns = clock_ns();
    ASSERT_NE(push(node_->state(), locked->legacy_stream(context_), kernel), 0U);
  }
  nvmlUtilization_t busy{};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (busy.gpu < 2 && std::chrono::steady_clock::now() < deadline) {
    ASSERT_EQ(NVML(nvmlDeviceGetUtilizationRates)(device(), &busy), NVML_SUCCESS);
    ::usleep(5000);
  }
  ASSERT_GE(busy.gpu, 2U);
  unsigned power = 0, clock = 0, count = 0;
  ASSERT_EQ(NVML(nvmlDeviceGetPowerUsage)(device(), &power), NVML_SUCCESS);
  EXPECT_GT(power, find_profile("tiny")->power_idle_mw);
  EXPECT_LE(power, find_profile("tiny")->power_max_mw);
  ASSERT_EQ(NVML(nvmlDeviceGetClockInfo)(device(), NVML_CLOCK_GRAPHICS, &clock), NVML_SUCCESS);
  EXPECT_EQ(clock, find_profile("tiny")->sm_clock_max_mhz);
  EXPECT_EQ(NVML(nvmlDeviceGetProcessUtilization)(device(), nullptr, &count, 0), NVML_ERROR_INSUFFICIENT_SIZE);
  ASSERT_EQ(count, 1U);
  nvmlProcessUtilizationSample_t sample{};
  ASSERT_EQ(NVML(nvmlDeviceGetProcessUtilization)(device(), &sample, &count, 0), NVML_SUCCESS);
  EXPECT_EQ(sample.pid, static_cast<unsigned>(::getpid()));
  EXPECT_GE(sample.smUtil, 2U);
  EXPECT_LE(sample.smUtil, 100U);
  EXPECT_EQ(NVML(nvmlDeviceGetProcessUtilization)(device(), &sample, &count, ~0ULL), NVML_ERROR_NOT_FOUND)
      << "nothing is newer than the future";
}

TEST_F(Nvml, MigIsAnsweredOnlyByACardThatHasIt) {
  unsigned current = 9, pending = 9;
  open("l40s-x2");
  EXPECT_EQ(NVML(nvmlDeviceGetMigMode)(device(), &current, &pending), NVML_ERROR_NOT_SUPPORTED);
  NVML(nvmlShutdown)();
  std::filesystem::remove_all(directory_);
  open("h200");
  EXPECT_EQ(NVML(nvmlDeviceGetMigMode)(device(), &current, &pending), NVML_SUCCESS);
  EXPECT_EQ(current, 0U);
}

TEST_F(Nvml, ALostDeviceAndAFailingCallReachARunningProcess) {
  open("l40s-x2");
  nvmlMemory_t memory{};
  const nvmlDevice_t first = device(0), second = device(1);
  ASSERT_TRUE(write_faults(directory_, "device1:lost,nvmlDeviceGetPowerUsage:fail=15"));
  EXPECT_EQ(NVML(nvmlDeviceGetMemoryInfo)(first, &memory), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlDeviceGetMemoryInfo)(second, &memory), NVML_ERROR_GPU_IS_LOST);
  unsigned power = 0;
  EXPECT_EQ(NVML(nvmlDeviceGetPowerUsage)(first, &power), NVML_ERROR_GPU_IS_LOST);
  ASSERT_TRUE(write_faults(directory_, ""));
  EXPECT_EQ(NVML(nvmlDeviceGetMemoryInfo)(second, &memory), NVML_SUCCESS);
}

TEST_F(Nvml, EveryNameIsExportedAndUnservedOnesReportIt) {
  for (const Name& name : nvml_names()) EXPECT_NE(::dlsym(nvml_library(), name.name.data()), nullptr) << name.name;
  open("tiny");
  EXPECT_EQ(find<nvmlReturn_t(nvmlDevice_t)>("nvmlDeviceGetBridgeChipInfo")(device()), NVML_ERROR_NOT_SUPPORTED);
}

TEST_F(Nvml, EveryFunctionWithAKnownSignatureIsServed) {
  for (const Name& name : nvml_names()) {
    if (!name.has_signature) continue;
    Dl_info where{};
    ElfW(Sym)* symbol = nullptr;
    ASSERT_NE(
        ::dladdr1(::dlsym(nvml_library(), name.name.data()), &where, reinterpret_cast<void**>(&symbol), RTLD_DL_SYMENT),
        0)
        << name.name;
    ASSERT_NE(symbol, nullptr) << name.name;
    EXPECT_EQ(ELF64_ST_BIND(symbol->st_info), STB_GLOBAL) << name.name << " is only the weak stub";
  }
}

TEST_F(Nvml, VersionsAreTheProfiles) {
  open("h200");
  char text[80];
  int cuda = 0;
  ASSERT_EQ(NVML(nvmlSystemGetDriverVersion)(text, sizeof text), NVML_SUCCESS);
  EXPECT_STREQ(text, find_profile("h200")->driver_version);
  ASSERT_EQ(NVML(nvmlSystemGetNVMLVersion)(text, sizeof text), NVML_SUCCESS);
  EXPECT_EQ(std::string(text), std::string("12.") + find_profile("h200")->driver_version);
  ASSERT_EQ(NVML(nvmlSystemGetCudaDriverVersion_v2)(&cuda), NVML_SUCCESS);
  EXPECT_EQ(cuda, 12020);
  EXPECT_STREQ(find<const char*(nvmlReturn_t)>("nvmlErrorString")(NVML_ERROR_NOT_FOUND), "Not Found");
}

}  // namespace
}  // namespace headgate::sim
