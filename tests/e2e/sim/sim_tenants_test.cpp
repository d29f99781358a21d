// The built simulator as a user's program sees it: real processes find it through LD_LIBRARY_PATH, and the node's truth
// page is checked.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "guest/abi/nvml.hpp"
#include "sim/faults.hpp"
#include "sim/node.hpp"
#include "sim/truth.hpp"
#include "sim_program.hpp"

namespace headgate::e2e {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;
using Environment = std::map<std::string, std::string>;

constexpr std::uint64_t kMiB = 1 << 20;

class SimulatedNode : public testing::Test {
 protected:
  void make(const char* profile) { ASSERT_TRUE(sim::create_node(node_.path(), *sim::find_profile(profile))); }

  Environment environment(Environment extra = {}) {
    extra["HEADGATE_SIM_DIR"] = node_.path();
    extra["LD_LIBRARY_PATH"] = HEADGATE_SIM_LIBRARIES;
    return extra;
  }
  static Words tenant(const std::string& name, Words rest = {}) {
    rest.insert(rest.begin(), std::string(HEADGATE_TENANTS "/") + name);
    return rest;
  }
  // Runs to the end. Returns the JSON line, with the exit status as "status" and stderr as "errors".
  json run(const std::string& name, Words rest = {}, Environment extra = {}) {
    Program program(tenant(name, std::move(rest)), environment(std::move(extra)));
    json said = json::parse(program.line(), nullptr, false);
    if (said.is_discarded()) said = json::object();
    said["status"] = program.wait();
    said["errors"] = program.errors();
    return said;
  }
  sim::Truth truth() {
    auto read = sim::read_truth(node_.path());
    EXPECT_TRUE(read) << read.error().message;
    return read.value_or(sim::Truth{});
  }
  // Waits until `holds` is true of the truth page; false after the deadline.
  template <typename Holds>
  bool eventually(Holds&& holds) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
      if (holds(truth())) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  Directory node_;
};

class EveryCall : public SimulatedNode, public testing::WithParamInterface<std::pair<const char*, const char*>> {};

TEST_P(EveryCall, CopiesExactlyOverTheDriver) {
  make("tiny");
  const auto& [program, road] = GetParam();
  const json said = run(program, {"--road", road, "1", "3", "4095", "4096", "1MiB", "3145729"});
  EXPECT_EQ(said["ok"], true) << said.dump();
  EXPECT_EQ(said["wrong"], 0);
  EXPECT_EQ(said["compared"], 1 + 3 + 4095 + 4096 + kMiB + 3145729);
  EXPECT_EQ(said["status"], 0);
  const json async = run(program, {"--road", road, "--async", "1000003"});
  EXPECT_EQ(async["wrong"], 0) << async.dump();
}

INSTANTIATE_TEST_SUITE_P(Roads, EveryCall,
                         testing::Values(std::pair{"tenant-copy-linked", "linked"}, std::pair{"tenant-copy", "dlopen"},
                                         std::pair{"tenant-copy", "global"}, std::pair{"tenant-copy", "proc"}));

TEST_F(SimulatedNode, MemoryIsGrantedUntilItIsUsedUp) {
  make("tiny");
  const json said = run("tenant-memory", {"1GiB", "512MiB", "512MiB", "100MiB"});
  ASSERT_EQ(said["ok"], true) << said.dump();
  EXPECT_EQ(said["allocations"][0]["result"], "CUDA_SUCCESS");
  EXPECT_EQ(said["allocations"][1]["result"], "CUDA_SUCCESS");
  EXPECT_EQ(said["allocations"][2]["result"], "CUDA_ERROR_OUT_OF_MEMORY")
      << "2 GiB less what is reserved and the context";
  EXPECT_EQ(said["allocations"][3]["result"], "CUDA_SUCCESS");
  EXPECT_EQ(said["free_before"].get<std::uint64_t>() - said["free_after"].get<std::uint64_t>(),
            (1024 + 512 + 100) * kMiB);
  EXPECT_EQ(said["status"], 0);
}

TEST_F(SimulatedNode, ATenantsMemoryIsVisibleAndReturnsAfterAKill) {
  make("tiny");
  Program holder(tenant("tenant-memory", {"--hold", "1500MiB"}), environment());
  ASSERT_FALSE(holder.line().empty());
  const json refused = run("tenant-memory", {"500MiB"});
  EXPECT_EQ(refused["allocations"][0]["result"], "CUDA_ERROR_OUT_OF_MEMORY") << refused.dump();
  const sim::Truth seen = truth();
  ASSERT_EQ(seen.devices.size(), 1U);
  EXPECT_EQ(seen.devices[0].used_bytes, 1500 * kMiB + sim::find_profile("tiny")->context_bytes);
  holder.kill_now();
  EXPECT_EQ(holder.wait(), 128 + 9);
  EXPECT_TRUE(eventually([](const sim::Truth& now) { return now.devices[0].used_bytes == 0; }));
  EXPECT_EQ(run("tenant-memory", {"1500MiB"})["allocations"][0]["result"], "CUDA_SUCCESS");
}

// NVML in this process, which is no tenant: shows what nvidia-smi would show.
class Nvml {
 public:
  explicit Nvml(const std::string& node)
      : library_(::dlopen(HEADGATE_SIM_LIBRARIES "/libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    ::setenv("HEADGATE_SIM_DIR", node.c_str(), 1);
    EXPECT_EQ(call<abi::nvmlInit_v2_t>("nvmlInit_v2"), abi::NVML_SUCCESS);
    EXPECT_EQ(call<abi::nvmlDeviceGetHandleByIndex_v2_t>("nvmlDeviceGetHandleByIndex_v2", 0U, &device_),
              abi::NVML_SUCCESS);
  }
  ~Nvml() {
    EXPECT_EQ(call<abi::nvmlShutdown_t>("nvmlShutdown"), abi::NVML_SUCCESS);
    ::unsetenv("HEADGATE_SIM_DIR");
  }
  std::map<pid_t, std::uint64_t> processes() {
    abi::nvmlProcessInfo_t infos[64];
    unsigned count = 64;
    EXPECT_EQ(call<abi::nvmlDeviceGetComputeRunningProcesses_v3_t>("nvmlDeviceGetComputeRunningProcesses_v3", device_,
                                                                   &count, infos),
              abi::NVML_SUCCESS);
    std::map<pid_t, std::uint64_t> made;
    for (unsigned i = 0; i < count; ++i) made[static_cast<pid_t>(infos[i].pid)] = infos[i].usedGpuMemory;
    return made;
  }

 private:
  template <typename Function, typename... Arguments>
  abi::nvmlReturn_t call(const char* name, Arguments... arguments) {
    return reinterpret_cast<Function*>(::dlsym(library_, name))(arguments...);
  }
  void* library_;
  abi::nvmlDevice_t device_ = nullptr;
};

TEST_F(SimulatedNode, NvmlListsEachTenantAndForgetsTheDead) {
  make("tiny");
  const std::uint64_t context = sim::find_profile("tiny")->context_bytes;
  Nvml nvml(node_.path());
  EXPECT_TRUE(nvml.processes().empty());
  Program first(tenant("tenant-memory", {"--hold", "10MiB"}), environment()),
      second(tenant("tenant-memory", {"--hold", "20MiB"}), environment());
  ASSERT_FALSE(first.line().empty());
  ASSERT_FALSE(second.line().empty());
  EXPECT_EQ(nvml.processes(),
            (std::map<pid_t, std::uint64_t>{{first.pid(), 10 * kMiB + context}, {second.pid(), 20 * kMiB + context}}));
  first.kill_now();
  first.wait();
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (nvml.processes().contains(first.pid()) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(nvml.processes(), (std::map<pid_t, std::uint64_t>{{second.pid(), 20 * kMiB + context}}));
  EXPECT_EQ(second.wait(), 0);
  EXPECT_TRUE(nvml.processes().empty());
}

TEST_F(SimulatedNode, GpuTimeMatchesTheKernelsToTheNanosecond) {
  make("tiny");
  const json said = run("tenant-launch", {"--us", "200", "--kernels", "500", "--depth", "50", "--ms", "60000"});
  ASSERT_EQ(said["ok"], true) << said.dump();
  EXPECT_EQ(said["kernels"], 500);
  const sim::Truth now = truth();
  ASSERT_EQ(now.devices[0].processes.size(), 1U);
  EXPECT_EQ(now.devices[0].processes[0].held_ns, 500U * 200'000U);
  EXPECT_EQ(now.devices[0].processes[0].kernels, 500U);
  EXPECT_GE(said["elapsed_ns"].get<std::uint64_t>(), 500U * 200'000U) << "kernels of one stream follow each other";
}

TEST_F(SimulatedNode, TwoTenantsShareTheGpuWithoutStarving) {
  make("tiny");
  const Words busy = {"--us", "1000", "--ms", "1500", "--depth", "32"};
  Program first(tenant("tenant-launch", busy), environment()), second(tenant("tenant-launch", busy), environment());
  const json a = json::parse(first.line(), nullptr, false), b = json::parse(second.line(), nullptr, false);
  ASSERT_TRUE(a.is_object() && b.is_object());
  EXPECT_GT(a["kernels"], 0);
  EXPECT_GT(b["kernels"], 0);
  EXPECT_EQ(first.wait(), 0);
  EXPECT_EQ(second.wait(), 0);
  const sim::Truth now = truth();
  std::uint64_t held = 0;
  for (const sim::ProcessTruth& process : now.devices[0].processes) held += process.held_ns;
  EXPECT_EQ(held, now.devices[0].busy_ns) << "time slices of two contexts never overlap";
}

class SpinPair : public SimulatedNode, public testing::WithParamInterface<std::tuple<const char*, bool>> {};

TEST_P(SpinPair, MeetsInEitherOrder) {
  const auto& [pair, wait_first] = GetParam();
  make("l40s-x2");
  Words rest = {"--pair", pair, "--rounds", "20"};
  if (wait_first) rest.push_back("--wait-first");
  const json said = run("tenant-spin", rest);
  EXPECT_EQ(said["ok"], true) << said.dump();
  EXPECT_EQ(said["status"], 0);
}

INSTANTIATE_TEST_SUITE_P(Pairs, SpinPair,
                         testing::Combine(testing::Values("streams", "threads", "processes", "gpus"), testing::Bool()));

TEST_F(SimulatedNode, AFailingAllocationFailsAtTheRequestedCall) {
  make("tiny");
  const json said =
      run("tenant-memory", {"--repeat", "4", "1MiB"}, {{"HEADGATE_SIM_FAULT", "cuMemAlloc_v2:fail=2:after=1:count=2"}});
  ASSERT_EQ(said["allocations"].size(), 4U) << said.dump();
  std::string answers;
  for (const json& one : said["allocations"])
    answers += one["result"] == "CUDA_SUCCESS" ? 's' : one["result"] == "CUDA_ERROR_OUT_OF_MEMORY" ? 'o' : '?';
  EXPECT_EQ(answers, "soos");
}

TEST_F(SimulatedNode, ABadFaultVariableIsNamedInOneLineNotIgnored) {
  make("tiny");
  const json said = run("tenant-memory", {"1MiB"}, {{"HEADGATE_SIM_FAULT", "cuMemAlloc_v2:explode"}});
  EXPECT_EQ(said["ok"], false);
  EXPECT_EQ(said["call"], "cuInit");
  const std::string errors = said["errors"];
  EXPECT_TRUE(errors.contains("HEADGATE_SIM_FAULT")) << errors;
  EXPECT_TRUE(errors.contains("'explode' is no action")) << errors;
}

TEST_F(SimulatedNode, ALostDeviceIsReportedAndTheOtherContinues) {
  make("l40s-x2");
  Program running(tenant("tenant-launch", {"--us", "100", "--ms", "60000", "--depth", "4"}), environment());
  ASSERT_TRUE(eventually([](const sim::Truth& now) {
    return !now.devices[0].processes.empty() && now.devices[0].processes[0].kernels > 10;
  }));
  ASSERT_TRUE(sim::write_faults(node_.path(), "device0:lost"));
  const json said = json::parse(running.line(), nullptr, false);
  EXPECT_EQ(running.wait(), 1);
  EXPECT_EQ(said["ok"], false) << said.dump();
  const json other = run("tenant-copy", {"--device", "1"});
  EXPECT_EQ(other["ok"], true) << other.dump();
}

TEST_F(SimulatedNode, TheDriverNamesTheVariableWithoutANode) {
  Program lost(tenant("tenant-copy"), {{"LD_LIBRARY_PATH", HEADGATE_SIM_LIBRARIES}, {"HEADGATE_SIM_DIR", ""}});
  const json said = json::parse(lost.line(), nullptr, false);
  EXPECT_EQ(lost.wait(), 1);
  EXPECT_EQ(said["ok"], false);
  EXPECT_TRUE(lost.errors().contains("HEADGATE_SIM_DIR"));
}

}  // namespace
}  // namespace headgate::e2e
