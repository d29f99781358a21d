#include "guest/grant/environment.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace headgate::grant {
namespace {

constexpr std::uint64_t kGi = 1ull << 30;
const std::string_view kNode[] = {"GPU-aaaa-0", "GPU-bbbb-1"};

// Owns the texts that a Reading points into.
class Env {
 public:
  Env(std::vector<std::string> entries) : entries_(std::move(entries)) {
    for (const auto& entry : entries_) pointers_.push_back(entry.c_str());
    pointers_.push_back(nullptr);
  }
  Reading read() const { return read_environment(pointers_.data(), kNode); }

 private:
  std::vector<std::string> entries_;
  std::vector<const char*> pointers_;
};

Grant good(std::vector<std::string> entries) {
  static std::vector<Env> kept;
  kept.reserve(1000);
  const Reading reading = kept.emplace_back(std::move(entries)).read();
  char line[512];
  describe(reading.refusal, line);
  EXPECT_FALSE(reading.refusal) << line;
  return reading.grant;
}

TEST(Environment, AProgramWithoutOurNamesIsNotAffected) {
  const Grant grant =
      good({"PATH=/bin", "CUDA_VISIBLE_DEVICES=0", "HEADGATE_LOG=debug", "CUDA_MEM_LIMITS=1", "NOEQUALS"});
  EXPECT_FALSE(grant.asks);
  EXPECT_EQ(grant.log, LogLevel::debug);
}

TEST(Environment, AnUnknownNameWithOurPrefixIsRefused) {
  for (const auto& [entry, meant] : {std::pair{"HEADGATE_MEMORY=2GiB", "HEADGATE_MEM"},
                                     {"HEADGATE_MEM_LIMIT=2GiB", "HEADGATE_MEM"},
                                     {"HEADGATE_MEM_0x=2GiB", "HEADGATE_MEM"},
                                     {"HEADGATE_HOST_MEMORY=2GiB", "HEADGATE_HOST_MEM"},
                                     {"HEADGATE_COMPUTE_LIMIT=20%", "HEADGATE_COMPUTE"},
                                     {"HEADGATE_BURSTS=20%", "HEADGATE_BURST"},
                                     {"HEADGATE_GPUS=0", "HEADGATE_GPU"}}) {
    const Env env({"HEADGATE_SHARE=a", entry});
    const Refusal refusal = env.read().refusal;
    EXPECT_EQ(refusal.fault, Fault::unknown_name) << entry;
    EXPECT_EQ(refusal.accepted, meant) << entry;
  }
  good({"HEADGATE_MEM_3=2GiB", "HEADGATE_SOMETHING=1", "CUDA_MEM_LIMITS=1", "HEADGATE_ME=1"});
}

TEST(Environment, OurGlobalNameLimitsEveryVisibleDevice) {
  const Grant grant = good({"HEADGATE_MEM=8GiB", "HEADGATE_COMPUTE=25%"});
  EXPECT_TRUE(grant.asks);
  ASSERT_EQ(grant.device_count, 2u);
  for (int i : {0, 1}) {
    EXPECT_EQ(grant.devices[i].memory.bytes, 8 * kGi);
    EXPECT_EQ(grant.devices[i].ceiling_ppm, 250'000u);
  }
  EXPECT_FALSE(grant.devices[2].memory.said());
}

TEST(Environment, HostMemoryIsASeparateSizeForEachDevice) {
  const Grant grant = good({"HEADGATE_MEM=8GiB", "HEADGATE_HOST_MEM=2GiB", "HEADGATE_HOST_MEM_1=50%"});
  EXPECT_EQ(grant.devices[0].memory.bytes, 8 * kGi);
  EXPECT_EQ(grant.devices[0].host_memory.bytes, 2 * kGi);
  EXPECT_EQ(grant.devices[1].host_memory.on(kGi), kGi / 2);
  EXPECT_FALSE(good({"HEADGATE_MEM=8GiB"}).devices[0].host_memory.said());
  for (const char* bad :
       {"HEADGATE_HOST_MEM=0", "HEADGATE_HOST_MEM=8", "HEADGATE_HOST_MEM=", "HEADGATE_HOST_MEM=much"}) {
    const Env env({bad});
    EXPECT_TRUE(env.read().refusal) << bad;
  }
}

TEST(Environment, OursOverridesForeignAndPerDeviceOverridesGlobal) {
  const std::vector<std::string> entries = {"CUDA_MEM_LIMIT=1g", "CUDA_MEM_LIMIT_1=2g", "CUDA_DEVICE_MEMORY_LIMIT=3g",
                                            "CUDA_DEVICE_MEMORY_LIMIT_1=4g", "GPU_MEMORY_LIMIT=5g"};
  std::vector<std::string> backwards(entries.rbegin(), entries.rend());
  for (const auto& order : {entries, backwards}) {
    const Grant grant = good(order);
    EXPECT_EQ(grant.devices[0].memory.bytes, 1 * kGi);
    EXPECT_EQ(grant.devices[1].memory.bytes, 2 * kGi);
  }
  auto with_ours = entries;
  with_ours.push_back("HEADGATE_MEM=6G");
  EXPECT_EQ(good(with_ours).devices[1].memory.bytes, 6 * kGi) << "our global name wins over a foreign per-device one";
  with_ours.insert(with_ours.begin(), "HEADGATE_MEM_1=7G");
  EXPECT_EQ(good(with_ours).devices[0].memory.bytes, 6 * kGi);
  EXPECT_EQ(good(with_ours).devices[1].memory.bytes, 7 * kGi);
}

TEST(Environment, IndexSuffixesCountInTheUuidListIfThereIsOne) {
  const Grant grant = good({"CUDA_MEM_LIMIT_0=1g", "CUDA_MEM_LIMIT_1=2g", "GPU_DEVICES_UUID=GPU-BBBB-1,GPU-aaaa-0"});
  EXPECT_EQ(grant.devices[0].memory.bytes, 2 * kGi);
  EXPECT_EQ(grant.devices[1].memory.bytes, 1 * kGi);
  const Grant elsewhere = good({"CUDA_MEM_LIMIT_0=1g", "CUDA_MEM_LIMIT=3g", "GPU_DEVICES_UUID=GPU-other,GPU-aaaa-0"});
  EXPECT_EQ(elsewhere.devices[0].memory.bytes, 3 * kGi) << "an unseen card's limit must not land on a seen one";
  const Grant pinned = good({"MANAGER_VISIBLE_DEVICE_0=GPU-bbbb-1", "CUDA_CORE_LIMIT_0=30"});
  EXPECT_EQ(pinned.devices[0].ceiling_ppm, 0u);
  EXPECT_EQ(pinned.devices[1].ceiling_ppm, 300'000u);
}

TEST(Environment, SoftLimitsCountOnlyAboveTheHardLimit) {
  EXPECT_EQ(good({"CUDA_CORE_LIMIT=30", "CUDA_CORE_SOFT_LIMIT=80"}).devices[0].soft_ppm, 800'000u);
  EXPECT_EQ(good({"CUDA_CORE_LIMIT=30", "CUDA_CORE_SOFT_LIMIT=20"}).devices[0].soft_ppm, 0u);
}

std::string refusal_of(const Refusal& refusal) {
  char line[512];
  return refusal ? std::string(line, describe(refusal, line)) : "";
}

TEST(Environment, ABurstWithoutAHardLimitIsRefusedByItsName) {
  for (const char* name : {"CUDA_CORE_SOFT_LIMIT", "CUDA_CORE_SOFT_LIMIT_0", "HEADGATE_BURST"}) {
    const Grant grant = good({std::string(name) + "=80%"});
    EXPECT_TRUE(refusal_of(check_burst(grant.devices[0])).starts_with(std::string(name) + "='80%' has no hard limit"))
        << refusal_of(check_burst(grant.devices[0]));
  }
  EXPECT_FALSE(check_burst(good({"HEADGATE_BURST=80%", "CUDA_CORE_LIMIT=30"}).devices[0]));
  EXPECT_FALSE(check_burst(good({"HEADGATE_BURST=80%", "HEADGATE_COMPUTE=40TFLOPS"}).devices[0]));
}

TEST(Environment, ALimitOfAnAbsentGpuIsRefusedByItsName) {
  const std::vector<std::string_view> one = {"GPU-aaaa-0"}, both = {"GPU-aaaa-0", "GPU-bbbb-1"};
  const auto refused = [&](const std::vector<std::string>& entries, const std::vector<std::string_view>& present) {
    std::vector<const char*> environment;
    for (const std::string& entry : entries) environment.push_back(entry.c_str());
    environment.push_back(nullptr);
    const Reading reading = read_environment(environment.data(), one, present);
    return refusal_of(reading.refusal);
  };
  for (const char* name : {"HEADGATE_MEM_1", "HEADGATE_COMPUTE_1", "CUDA_MEM_LIMIT_1", "CUDA_CORE_LIMIT_1"}) {
    const std::string value = std::string_view(name).find("MEM") == std::string_view::npos ? "30%" : "1g";
    const std::vector<std::string> entry = {std::string(name) + "=" + value};
    EXPECT_TRUE(
        refused(entry, one)
            .starts_with(entry[0].substr(0, entry[0].find('=')) + "='" + value + "' is for a GPU that is not here"))
        << refused(entry, one);
    EXPECT_EQ(refused(entry, both), "") << "hidden from this process";
    EXPECT_EQ(refused(entry, {}), "") << "the GPUs present are not known";
  }
  for (const char* json : {R"({"GPU-cccc-2": 1024})", R"({"7": 1024})"})
    EXPECT_TRUE(refused({std::string("TENSOR_FUSION_CUDA_MEM_LIMIT=") + json}, both)
                    .starts_with("TENSOR_FUSION_CUDA_MEM_LIMIT='"))
        << json;
  EXPECT_EQ(refused({R"(TENSOR_FUSION_CUDA_MEM_LIMIT={"GPU-BBBB-1": 1024})"}, both), "");
  EXPECT_NE(refused({"CUDA_MEM_LIMIT_1=1g", "GPU_DEVICES_UUID=GPU-aaaa-0,GPU-cccc-2"}, both), "");
  EXPECT_NE(refused({"CUDA_MEM_LIMIT_2=1g", "GPU_DEVICES_UUID=GPU-aaaa-0"}, both), "");
}

TEST(Environment, ComputeIsReadInFlopsInAnyCase) {
  for (const char* text : {"494.5TFLOPS", "494500gflops", "0.4945PFlops"}) {
    DeviceGrant device = good({std::string("HEADGATE_COMPUTE=") + text}).devices[0];
    EXPECT_FALSE(resolve_flops(device, "NVIDIA H200"));
    EXPECT_EQ(device.ceiling_ppm, 500'000u) << text;
  }
  EXPECT_EQ(good({"HEADGATE_COMPUTE=500M"}).devices[0].ceiling_ppm, 500'000u);
  EXPECT_EQ(good({"HEADGATE_COMPUTE=40TFLOPS", "HEADGATE_COMPUTE_0=25%"}).devices[0].ceiling_megaflops, 0u);
  DeviceGrant device = good({"HEADGATE_COMPUTE=40TFLOPS"}).devices[0];
  EXPECT_TRUE(refusal_of(resolve_flops(device, "NVIDIA Z1")).starts_with("HEADGATE_COMPUTE='40TFLOPS' is for a card"));
  EXPECT_TRUE(refusal_of(resolve_flops(device, "NVIDIA A2")).starts_with("HEADGATE_COMPUTE='40TFLOPS' is more than"));
  EXPECT_TRUE(Env({"HEADGATE_COMPUTE=xTFLOPS"}).read().refusal);
}

TEST(Environment, OversubscribedMemoryIsOnTheCardUpToItsSize) {
  const auto split = [](const std::vector<std::string>& entries, std::uint64_t card) {
    const DeviceGrant device = good(entries).devices[0];
    EXPECT_FALSE(check_memory(device, card));
    const MemorySplit memory = split_memory(device, card);
    return std::pair(memory.card_bytes, memory.host_bytes);
  };
  using Pair = std::pair<std::uint64_t, std::uint64_t>;
  for (const char* flag : {"CUDA_MEMORY_OVERSUBSCRIBE=true", "CUDA_OVERSUBSCRIBE=1", "CUDA_MEM_OVERSOLD=TRUE"}) {
    EXPECT_EQ(split({flag, "CUDA_MEM_LIMIT=24g"}, 16 * kGi), Pair(16 * kGi, 8 * kGi)) << flag;
    EXPECT_EQ(split({flag, "CUDA_MEM_LIMIT=4g"}, 16 * kGi), Pair(4 * kGi, 0)) << flag;
  }
  for (const char* ratio :
       {"CUDA_MEMORY_RATIO=2", "CUDA_MEMORY_RATIO=2.", "CUDA_MEM_RATIO=2", "CUDA_MEMORY_OVERSUBSCRIBE=2"}) {
    EXPECT_EQ(split({ratio, "CUDA_MEM_LIMIT=4g"}, 16 * kGi), Pair(2 * kGi, 2 * kGi)) << ratio;
    EXPECT_EQ(split({ratio, "CUDA_MEM_LIMIT=40g"}, 16 * kGi), Pair(16 * kGi, 24 * kGi)) << ratio;
  }
  EXPECT_TRUE(check_memory(good({"CUDA_OVERSUBSCRIBE=false", "CUDA_MEM_LIMIT=24g"}).devices[0], 16 * kGi));
}

// 0 infos, 1 errors, 2 warnings, 3 fatal errors, 4 verbose, 5 details; each includes those before it.
TEST(Environment, LoggerLevelFollowsItsProjectsTable) {
  const LogLevel levels[] = {LogLevel::error, LogLevel::error, LogLevel::warn,
                             LogLevel::warn,  LogLevel::info,  LogLevel::debug};
  for (int i = 0; i < 6; ++i) {
    const Grant grant = good({"LOGGER_LEVEL=" + std::to_string(i)});
    EXPECT_TRUE(grant.log_infos) << i;
    EXPECT_EQ(grant.log, levels[i]) << i;
  }
  EXPECT_FALSE(good({"HEADGATE_LOG=warn", "LOGGER_LEVEL=0"}).log_infos) << "ours wins";
}

TEST(Environment, JsonMapsNameCardsByUuidInAnyCaseOrByIndex) {
  const Grant grant = good({R"(TENSOR_FUSION_CUDA_MEM_LIMIT={"gpu-BBBB-1": 8589934592, "0" : "3g"})",
                            R"(TENSOR_FUSION_CUDA_UP_LIMIT={ "1":50 })"});
  EXPECT_EQ(grant.devices[0].memory.bytes, 3 * kGi);
  EXPECT_EQ(grant.devices[1].memory.bytes, 8 * kGi);
  EXPECT_EQ(grant.devices[0].ceiling_ppm, 0u);
  EXPECT_EQ(grant.devices[1].ceiling_ppm, 500'000u);
}

TEST(Environment, ReadsFurtherNamesOfExistingSpecs) {
  const Grant grant = good({"HEADGATE_SHARE=train", "HEADGATE_GPU=auto", "HEADGATE_FAIL_POLICY=closed",
                            "CUDA_TASK_PRIORITY=1", "GPU_CORE_UTILIZATION_POLICY=FORCE", "CUDA_OVERSUBSCRIBE=true",
                            "ACTIVE_OOM_KILLER=0", "CUDA_REDIRECT=/x", "VGPU_POD_NAME=pod-1", "LOGGER_LEVEL=5"});
  EXPECT_EQ(grant.share, "train");
  EXPECT_EQ(grant.gpu, "auto");
  EXPECT_TRUE(grant.fail_closed);
  EXPECT_FALSE(grant.compute_off);
  EXPECT_EQ(grant.devices[0].oversubscribe_ppm, kWholePpm);
  EXPECT_EQ(grant.log, LogLevel::debug);
  EXPECT_EQ(good({"CUDA_MEMORY_RATIO=1.5"}).devices[0].oversubscribe_ppm, 1'500'000u);
  EXPECT_EQ(good({"LIBCUDA_LOG_LEVEL=4", "HEADGATE_LOG=off"}).log, LogLevel::off);
  EXPECT_TRUE(good({"CUDA_DISABLE_CONTROL=TRUE"}).opted_out);
  EXPECT_TRUE(good({"GPU_CORE_UTILIZATION_POLICY=disable"}).compute_off);
}

// One value of each foreign name in its project's format, alone in the environment, and the check of the result.
struct Foreign {
  const char *name, *value;
  bool (*read)(const Grant& grant);
};
constexpr Foreign kForeignNames[] = {
    {"CUDA_MEM_LIMIT", "1000m", [](const Grant& g) { return g.asks && g.devices[1].memory.bytes == 1000ull << 20; }},
    {"CUDA_CORE_LIMIT", "30", [](const Grant& g) { return g.asks && g.devices[1].ceiling_ppm == 300'000; }},
    {"CUDA_CORE_SOFT_LIMIT", "80", [](const Grant& g) { return g.devices[0].ceiling_ppm == 0; }},
    {"CUDA_MEMORY_OVERSUBSCRIBE", "true", [](const Grant& g) { return g.devices[0].oversubscribe_ppm == kWholePpm; }},
    {"CUDA_MEMORY_RATIO", "2", [](const Grant& g) { return g.devices[0].oversubscribe_ppm == 2 * kWholePpm; }},
    {"CUDA_MEM_RATIO", "2", [](const Grant& g) { return g.devices[0].oversubscribe_ppm == 2 * kWholePpm; }},
    {"CUDA_MEM_OVERSOLD", "TRUE", [](const Grant& g) { return g.devices[0].oversubscribe_ppm == kWholePpm; }},
    {"GPU_DEVICES_UUID", "GPU-bbbb-1", [](const Grant& g) { return !g.asks; }},
    {"MANAGER_VISIBLE_DEVICES", "GPU-bbbb-1", [](const Grant& g) { return !g.asks; }},
    {"MANAGER_VISIBLE_DEVICE_0", "GPU-bbbb-1", [](const Grant& g) { return !g.devices[0].memory.said(); }},
    {"LOGGER_LEVEL", "0", [](const Grant& g) { return g.log_said; }},
    {"DISABLE_VGPU_CONTROL", "true", [](const Grant& g) { return g.opted_out; }},
    {"VGPU_POD_NAME", "a", [](const Grant& g) { return !g.asks; }},
    {"VGPU_POD_NAMESPACE", "a", [](const Grant& g) { return !g.asks; }},
    {"VGPU_POD_UID", "a", [](const Grant& g) { return !g.asks; }},
    {"VGPU_CONTAINER_NAME", "a", [](const Grant& g) { return !g.asks; }},
    {"CUDA_DEVICE_MEMORY_LIMIT", "3g", [](const Grant& g) { return g.asks && g.devices[1].memory.bytes == 3 * kGi; }},
    {"CUDA_DEVICE_SM_LIMIT", "30", [](const Grant& g) { return g.asks && g.devices[1].ceiling_ppm == 300'000; }},
    {"CUDA_TASK_PRIORITY", "1", [](const Grant& g) { return !g.asks; }},
    {"GPU_CORE_UTILIZATION_POLICY", "DISABLE", [](const Grant& g) { return g.compute_off; }},
    {"CUDA_OVERSUBSCRIBE", "true", [](const Grant& g) { return g.devices[0].oversubscribe_ppm == kWholePpm; }},
    {"ACTIVE_OOM_KILLER", "true", [](const Grant& g) { return !g.asks; }},
    {"CUDA_DISABLE_CONTROL", "true", [](const Grant& g) { return g.opted_out; }},
    {"CUDA_DEVICE_MEMORY_SHARED_CACHE", "/tmp/x.cache", [](const Grant& g) { return !g.asks; }},
    {"CUDA_REDIRECT", "/usr/local/vgpu/libvgpu.so", [](const Grant& g) { return !g.asks; }},
    {"LIBCUDA_LOG_LEVEL", "4", [](const Grant& g) { return g.log == LogLevel::debug; }},
    {"GPU_MEMORY_LIMIT", "3g", [](const Grant& g) { return g.asks && g.devices[1].memory.bytes == 3 * kGi; }},
    {"TENSOR_FUSION_CUDA_MEM_LIMIT", R"({"GPU-BBBB-1":1024})",
     [](const Grant& g) { return g.asks && g.devices[1].memory.bytes == 1024; }},
    {"TENSOR_FUSION_CUDA_UP_LIMIT", R"({"gpu-bbbb-1":30})",
     [](const Grant& g) { return g.asks && g.devices[1].ceiling_ppm == 300'000; }},
};

TEST(Environment, EachForeignNameIsReadAsItsProjectDoes) {
  for (const Variable& row : variables()) {
    if (row.ours) continue;
    const auto* const found = std::ranges::find_if(kForeignNames, [&row](const Foreign& each) {
      const std::string_view name = each.name;
      return name == row.name || (row.meaning == Meaning::uuid_at && name == std::string(row.name) + "_0");
    });
    ASSERT_NE(found, std::end(kForeignNames)) << row.name << " has no value here";
    EXPECT_TRUE(found->read(good({std::string(found->name) + "=" + found->value})))
        << found->name << "=" << found->value;
  }
}

// Bad values for each syntax. Every row of the table must refuse all of its syntax.
std::vector<std::string> bad_values(Syntax syntax) {
  switch (syntax) {
    case Syntax::memory: return {"", "0", "0m", "abc", "-1", "8000", "1e9GiB", "99999999999999999999G", "101%"};
    case Syntax::foreign_memory: return {"", "0", "0m", "abc", "-1", "1e9", "99999999999999999999", "50%", "3 4"};
    case Syntax::compute: return {"", "0", "0%", "abc", "-1", "101%", "50", "5e1%"};
    case Syntax::percent: return {"", "0", "abc", "-1", "101", "0.00000001", "99999999999999999999"};
    case Syntax::memory_map:
      return {"",
              "{}",
              "[]",
              "8g",
              "{",
              R"({"0")",
              R"({"0":0})",
              R"({"0":"abc"})",
              R"({"0":-1})",
              R"({"x":1})",
              R"({"0":1} x)",
              R"({"0":1,})"};
    case Syntax::percent_map:
      return {"",
              "{}",
              "50",
              R"({"0":0})",
              R"({"0":101})",
              R"({"0":"abc"})",
              R"({"0":{}})",
              R"({"GPU-":5})",
              R"({"0":5 "1":6})"};
    case Syntax::ratio: return {"", "0", "abc", "-1", "0.5", "1001", "1.5x", "true"};
    case Syntax::ratio_or_flag: return {"", "abc", "-1", "0.5", "1001", "yes"};
    case Syntax::flag: return {"", "2", "yes", "on", "-1"};
    case Syntax::log_word: return {"", "loud", "3", "-1"};
    case Syntax::log_seed: return {"", "6", "-1", "info", "1.5"};
    case Syntax::log_hami: return {"", "5", "-1", "info"};
    case Syntax::fail_word: return {"", "shut", "0"};
    case Syntax::priority: return {"", "2", "-1", "high"};
    case Syntax::policy_word: return {"", "always", "0"};
    case Syntax::uuids: return {"", ",", "0,1", "GPU-a,", "GPU-a b", "all"};
    case Syntax::uuid: return {"", "0", "GPU-"};
    case Syntax::share_name: return {"", ".", "../x", "a/b", "a b", std::string(64, 'a'), "-x"};
    case Syntax::absolute_path: return {"", "shares/s", ".", "~/s", "/" + std::string(255, 'x')};
    case Syntax::text: return {""};
    case Syntax::anything: return {};
  }
  return {};
}

TEST(Environment, EveryBadValueNamesVariableValueAndWhatIsAccepted) {
  int checked = 0;
  for (const Variable& row : variables()) {
    std::vector<std::string> names;
    if (row.meaning != Meaning::uuid_at) names.emplace_back(row.name);
    if (row.indexed) names.push_back(std::string(row.name) + "_1");
    for (const auto& name : names) {
      for (const auto& value : bad_values(row.syntax)) {
        // A valid value that takes precedence must not hide the bad one.
        const Env env({"HEADGATE_MEM=1G", "HEADGATE_COMPUTE=1%", name + "=" + value});
        const Reading reading = env.read();
        ASSERT_TRUE(reading.refusal) << name << "=" << value;
        EXPECT_EQ(reading.refusal.variable, name);
        EXPECT_EQ(reading.refusal.value, value);
        EXPECT_EQ(reading.refusal.accepted, accepted(row.syntax));
        char line[512];
        const std::size_t length = describe(reading.refusal, line);
        const std::string said(line, length);
        EXPECT_NE(said.find(name + "='"), std::string::npos) << said;
        EXPECT_NE(said.find("accepted: " + std::string(accepted(row.syntax))), std::string::npos) << said;
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 250);
}

TEST(Environment, ARefusalCannotDriveTheTerminalOrExceedItsLine) {
  const Env env({"HEADGATE_MEM=\x1b[2J\n" + std::string(5000, 'x')});
  const Reading reading = env.read();
  char line[256];
  const std::size_t length = describe(reading.refusal, line);
  EXPECT_LT(length, sizeof line);
  const std::string said(line, length);
  EXPECT_EQ(said.find('\x1b'), std::string::npos);
  EXPECT_EQ(said.find('\n'), std::string::npos);
  EXPECT_NE(said.find("..."), std::string::npos);
}

TEST(Environment, HasTheExactMessages) {
  const Env env({"CUDA_MEM_LIMIT_0=0m"});
  const Reading reading = env.read();
  char line[256];
  describe(reading.refusal, line);
  EXPECT_STREQ(line,
               "CUDA_MEM_LIMIT_0='0m' is zero; accepted: bytes, or a number with k, m, g or t (binary), such as 3g, "
               "1.5G or 1000m");
}

TEST(Environment, ALimitBeyondTheCardIsRefusedByItsName) {
  const auto said = [](const Grant& grant, std::uint64_t card_bytes) {
    char line[512];
    const Refusal refusal = check_memory(grant.devices[1], card_bytes);
    return refusal ? std::string(line, describe(refusal, line)) : "";
  };
  const Grant foreign = good({"CUDA_MEM_LIMIT=1g", "CUDA_DEVICE_MEMORY_LIMIT_1=17g", "GPU_MEMORY_LIMIT=99g"});
  EXPECT_EQ(
      said(foreign, 16 * kGi),
      "CUDA_DEVICE_MEMORY_LIMIT_1='17g' is more than the card has; accepted: bytes, or a number with k, m, g or t "
      "(binary), such as 3g, 1.5G or 1000m; at most 16384m");
  EXPECT_EQ(said(foreign, 17 * kGi), "");
  EXPECT_EQ(said(foreign, 0), "") << "the size of the card is not known";
  EXPECT_NE(said(good({"HEADGATE_MEM=17G", "GPU_MEMORY_LIMIT=1g"}), 16 * kGi).find("HEADGATE_MEM='17G' is more"),
            std::string::npos);
  EXPECT_EQ(said(good({"HEADGATE_MEM=1G", "GPU_MEMORY_LIMIT=99g"}), 16 * kGi), "") << "what loses does not bind";
  EXPECT_NE(said(good({R"(TENSOR_FUSION_CUDA_MEM_LIMIT={"1": "17g"})"}), 16 * kGi)
                .find(R"(TENSOR_FUSION_CUDA_MEM_LIMIT='{"1": "17g"}' is more than the card has; accepted: a JSON map)"),
            std::string::npos);
  EXPECT_EQ(said(good({"HEADGATE_MEM=100%"}), 16 * kGi), "");
  EXPECT_NE(said(good({"HEADGATE_MEM=0.0001%"}), 1000).find("HEADGATE_MEM='0.0001%' is zero"), std::string::npos);
  EXPECT_EQ(said(good({"HEADGATE_COMPUTE=50%"}), 16 * kGi), "");
}

RC_GTEST_PROP(Environment, EachDeviceGetsItsOwnValue, ()) {
  const auto bytes0 = *rc::gen::inRange<std::uint64_t>(1, ~0ull);
  const auto bytes1 = *rc::gen::inRange<std::uint64_t>(1, ~0ull);
  const auto percent = *rc::gen::inRange(1, 101);
  const Env env({"CUDA_MEM_LIMIT_1=" + std::to_string(bytes1), "CUDA_CORE_LIMIT=" + std::to_string(percent),
                 "CUDA_MEM_LIMIT_0=" + std::to_string(bytes0)});
  const Reading reading = env.read();
  RC_ASSERT(!reading.refusal);
  RC_ASSERT(reading.grant.devices[0].memory.bytes == bytes0);
  RC_ASSERT(reading.grant.devices[1].memory.bytes == bytes1);
  RC_ASSERT(reading.grant.devices[1].ceiling_ppm == static_cast<std::uint32_t>(percent) * 10'000);
}

}  // namespace
}  // namespace headgate::grant
