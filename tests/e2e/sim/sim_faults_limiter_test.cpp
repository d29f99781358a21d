// Driver faults under the limiter: its own driver calls may fail, block, or find the GPU lost. The user's program must
// not crash or hang, and must see only what the driver alone would have returned.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "guest/ledger/account.hpp"
#include "guest/ledger/pages.hpp"
#include "guest/ledger/slot.hpp"
#include "sim/faults.hpp"
#include "sim_program.hpp"

namespace headgate::e2e {
namespace {

constexpr unsigned kFault = 999;
constexpr const char* kShare = "faults";

// Calls of the meter, during a launch or in its own thread.
constexpr const char* kMeter[] = {"cuEventCreate", "cuEventRecord", "cuEventQuery", "cuEventElapsedTime"};
// Calls with optional results: if they fail, the limiter continues.
constexpr const char* kHelpers[] = {"cuStreamQuery",
                                    "cuStreamGetCtx",
                                    "cuStreamGetId",
                                    "cuCtxGetCurrent",
                                    "cuCtxGetDevice",
                                    "cuCtxSetCurrent",
                                    "cuThreadExchangeStreamCaptureMode",
                                    "cuDevicePrimaryCtxGetState"};
// Calls made while joining. A share with unknown GPUs may be refused, but is never left without limits.
constexpr const char* kStart[] = {"cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetUuid", "cuDeviceTotalMem_v2"};
constexpr const char* kNvml[] = {"nvmlInit_v2", "nvmlDeviceGetHandleByUUID", "nvmlDeviceGetComputeRunningProcesses_v3",
                                 "nvmlDeviceGetGraphicsRunningProcesses_v3", "nvml*"};

constexpr const char* kPolicies[] = {"open", "closed"};

struct Ended {
  int status = -1;
  std::string out, err;
  std::uint64_t hits = 0;  // of the fault's rule
  [[nodiscard]] long lines() const { return std::ranges::count(err, '\n'); }
};

class FaultsUnderTheLimiter : public testing::Test {
 protected:
  std::map<std::string, std::string> environment(const std::string& rules, bool limited) const {
    std::map<std::string, std::string> made = {{"LD_LIBRARY_PATH", HEADGATE_SIM_LIBRARIES},
                                               {"HEADGATE_SIM_DIR", node()},
                                               {"HEADGATE_SIM_PROFILE", "tiny"},
                                               {"HEADGATE_SIM_FAULT", rules},
                                               {"CUDA_VISIBLE_DEVICES", "0"}};
    if (!limited) return made;
    made.insert({{"LD_PRELOAD", HEADGATE_LIMITER},
                 {"HEADGATE_RUNTIME_DIR", runtime()},
                 {"HEADGATE_SHARE", kShare},
                 {"HEADGATE_MEM", "1GiB"},
                 {"HEADGATE_COMPUTE", "50%"},
                 {"HEADGATE_LOG", "warn"},
                 {"HEADGATE_FAIL_POLICY", policy_}});
    return made;
  }
  std::string node() const { return directory_.path() + "/node"; }
  std::string runtime() const { return directory_.path() + "/run"; }

  static Ended finish(Program& program, std::string before = {}) {
    Ended ended;
    ended.out = std::move(before);
    for (std::string line; !(line = program.line()).empty();) ended.out += line + "\n";
    ended.status = program.wait();
    ended.err = program.errors();
    return ended;
  }
  // Returns how many calls a rule has acted on so far; by default the first rule, or the lost devices.
  std::uint64_t hits(std::size_t rule = 0) const {
    const auto all = sim::fault_hits(node());
    return all ? all->at(rule) : 0;
  }
  Ended run(const std::string& rules, bool limited = true) const {
    const std::uint64_t before = hits();
    auto variables = environment(rules, limited);
    // Called only for an idle stream, so the program waits until it was called.
    const bool idle = limited && rules.starts_with("cuStreamQuery");
    if (idle) variables["PROBE_IDLE"] = "1";
    if (until_refused_) variables["PROBE_UNTIL_REFUSED"] = "1";
    Program program({HEADGATE_TENANTS "/sim-faults-probe"}, variables);
    std::string first;
    for (std::string line; idle && !(line = program.line()).empty() && line != "idle";) first += line + "\n";
    for (int tries = 0; idle && hits() == before && tries < 10'000; ++tries) ::usleep(1000);
    if (idle) program.close_stdin();
    Ended ended = finish(program, first);
    ended.hits = hits() - before;
    return ended;
  }
  const std::string& plain() {
    if (plain_.empty()) plain_ = run("", false).out;
    return plain_;
  }
  struct Held {
    std::uint64_t memory_bytes = 0, time_ns = 0, measured_ns = 0;  // memory: peak; time: total
  };
  Held held_so_far() const {
    ledger::SharePages pages;
    EXPECT_FALSE(ledger::open_share(runtime().c_str(), kShare, ledger::Access::owner, pages));
    if (pages.usage == nullptr) return {};
    const ledger::ComputeAccount& compute = pages.usage->compute[0];
    const Held held{ledger::peak_bytes(*pages.usage, 0), compute.held_ns, compute.held_ns - compute.estimated_ns};
    ledger::close_pages(pages);
    return held;
  }
  // Returns the number of contexts that lost their metering through the failure of that call.
  std::uint64_t failures_of(const std::string& call) const {
    ledger::SharePages pages;
    EXPECT_FALSE(ledger::open_share(runtime().c_str(), kShare, ledger::Access::owner, pages));
    if (pages.usage == nullptr) return 0;
    const auto* which = std::ranges::find(ledger::kMeterCalls, call);
    const std::uint64_t count = pages.usage->compute[0].meter_failures[which - ledger::kMeterCalls].load();
    ledger::close_pages(pages);
    return count;
  }
  // Called after the program's end.
  void expect_nothing_left() const {
    ledger::SharePages pages;
    ASSERT_FALSE(ledger::open_share(runtime().c_str(), kShare, ledger::Access::owner, pages));
    ledger::reap_dead(*pages.usage);
    EXPECT_EQ(ledger::used_bytes(*pages.usage, 0), 0U);
    EXPECT_EQ(ledger::live_slots(*pages.usage), 0U);
    ledger::close_pages(pages);
  }
  void expect_untouched(const std::string& rules, long most_lines) {
    SCOPED_TRACE(rules);
    const Ended ended = run(rules);
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_EQ(ended.out, plain()) << ended.err;
    EXPECT_LE(ended.lines(), most_lines) << ended.err;
    EXPECT_TRUE(rules.empty() || ended.hits > 0) << "the fault was never met, so nothing is proved";
    expect_nothing_left();
  }

  Directory directory_;
  std::string plain_;
  std::string policy_ = "open";
  bool until_refused_ = false;  // the program goes on launching until a launch fails
};

template <std::size_t kSize>
std::vector<std::pair<std::string, std::string>> every_policy_with(const char* const (&names)[kSize]) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const char* policy : kPolicies)
    for (const char* name : names) all.emplace_back(policy, name);
  return all;
}

std::string failing(const std::string& function, const char* rest) {
  return function + ":fail=" + std::to_string(kFault) + rest;
}
std::string late(const std::string& function) { return function + ":delay_us=50000:count=40"; }

TEST_F(FaultsUnderTheLimiter, AHealthyProgramSeesNoDifference) {
  for (const char* policy : kPolicies) policy_ = policy, expect_untouched("", 0);
  EXPECT_NE(plain().find("end of primary context 0\nend\n"), std::string::npos) << plain();
}

TEST_F(FaultsUnderTheLimiter, AFailingMeterLetsTheProgramRun) {
  for (const std::string function : kMeter) {
    expect_untouched(failing(function, ""), 1);
    const Ended ended = run(failing(function, ""));
    EXPECT_EQ(ended.lines(), 1) << function << " failed and no message said so:\n" << ended.err;
    EXPECT_NE(ended.err.find(std::to_string(kFault)), std::string::npos)
        << "the driver's error is masked: " << ended.err;
    EXPECT_GT(failures_of(function), 0U) << "not there for headgate_share_hook_errors_total";
  }
}

TEST_F(FaultsUnderTheLimiter, AnEndedContextIsNotReportedAsUnlimited) {
  for (const char* code : {"700", "719"}) {
    const Ended ended = run(std::string("cuEventQuery:fail=") + code);
    EXPECT_NE(ended.err.find("its launches fail: a kernel's fault has ended the context"), std::string::npos)
        << ended.err;
    EXPECT_EQ(ended.err.find("run unlimited"), std::string::npos) << ended.err;
  }
}

TEST_F(FaultsUnderTheLimiter, AFullCardIsNotTakenForTheLimit) {
  const Ended ended = run("cuMemAlloc_v2:fail=2:count=1");
  EXPECT_NE(ended.out.find("\nallocate 2\n"), std::string::npos) << ended.out;
  ledger::SharePages pages;
  ASSERT_FALSE(ledger::open_share(runtime().c_str(), kShare, ledger::Access::owner, pages));
  const ledger::MemoryAccount& account = pages.usage->memory[0];
  EXPECT_EQ(account.refusals_device_full.load(), 1U);
  EXPECT_EQ(account.refusals.load(), 0U);
  EXPECT_EQ(account.last_denial.load(), ledger::Denial::device_full);
  EXPECT_EQ(account.last_refusal_bytes.load(), 64U << 20);
  ledger::close_pages(pages);
}

TEST_F(FaultsUnderTheLimiter, AFailingMeterRefusesLaunchesIfClosed) {
  policy_ = "closed";
  std::string refused = plain();
  until_refused_ = true;
  for (const std::string what : {"\nlaunches ", "\nlaunches on the default stream "})
    refused.replace(refused.find(what + "0"), what.size() + 1, what + "800");
  for (const std::string function : kMeter) {
    SCOPED_TRACE(function);
    const Ended ended = run(failing(function, ""));
    EXPECT_EQ(ended.status, 0);
    EXPECT_GT(ended.hits, 0U);
    EXPECT_EQ(ended.out, refused) << "everything but launches goes on";
    EXPECT_EQ(ended.lines(), 1) << ended.err;
    EXPECT_NE(ended.err.find("its launches are refused from now on"), std::string::npos) << ended.err;
    expect_nothing_left();
  }
}

// After failures for less than 100 ms, under any policy, measuring resumes without a message.
TEST_F(FaultsUnderTheLimiter, FewMeterFailuresChangeNothing) {
  for (const auto& [policy, function] : every_policy_with(kMeter)) {
    for (const char* rest : {":count=1", ":count=6", ":after=1:count=6"}) {
      SCOPED_TRACE(policy + " " + function + rest);
      policy_ = policy;
      expect_untouched(failing(function, rest), 0);
      EXPECT_EQ(failures_of(function), 0U);
      EXPECT_GT(held_so_far().measured_ns, 0U) << "measured no more";
      std::filesystem::remove_all(runtime());
    }
  }
}

// Whichever helper fails: a program that continues is limited, and one that is not limited gets a message.
TEST_F(FaultsUnderTheLimiter, NoHelperFailureLiftsAClosedShare) {
  policy_ = "closed";
  for (const std::string function : kHelpers) {
    for (const char* rest : {"", ":count=1"}) {
      SCOPED_TRACE(function + rest);
      const Ended ended = run(failing(function, rest));
      EXPECT_EQ(ended.status, 0) << ended.err;
      EXPECT_GT(ended.hits, 0U);
      const Held held = held_so_far();
      const bool memory = held.memory_bytes >= 64U << 20 || ended.out.find("\nallocate 2\n") != std::string::npos;
      const bool compute = held.time_ns > 0 || ended.out.find("\nlaunches 800\n") != std::string::npos;
      EXPECT_TRUE(memory) << ended.out << ended.err;
      EXPECT_TRUE(compute) << ended.out << ended.err;
      EXPECT_LE(ended.lines(), 2) << ended.err;
      std::filesystem::remove_all(runtime());
    }
  }
}

TEST_F(FaultsUnderTheLimiter, FailuresOfHelperCallsReachNoProgram) {
  for (const std::string function : kHelpers) {
    expect_untouched(failing(function, ""), 1);
    expect_untouched(failing(function, ":count=1"), 1);
  }
}

TEST_F(FaultsUnderTheLimiter, FailuresOfNvmlReachNoOtherProgram) {
  for (const char* policy : kPolicies) {
    policy_ = policy;
    for (const std::string function : kNvml) {
      expect_untouched(failing(function, ""), 1);
      expect_untouched(failing(function, ":count=1"), 1);
      expect_untouched(late(function), 0);
    }
  }
}

TEST_F(FaultsUnderTheLimiter, ASlowDriverOnlyDelaysAProgram) {
  for (const std::string function : kMeter) expect_untouched(late(function), 0);
  for (const std::string function : kHelpers) expect_untouched(late(function), 0);
  for (const std::string function : kStart) expect_untouched(late(function), 0);
}

TEST_F(FaultsUnderTheLimiter, AShareWithoutItsGpusIsRefused) {
  for (const auto& [policy, function] : every_policy_with(kStart)) {
    SCOPED_TRACE(policy + " " + function);
    policy_ = policy;
    const Ended ended = run(failing(function, ""));
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_GT(ended.hits, 0U);
    if (ended.out != plain()) {
      EXPECT_TRUE(ended.out.starts_with("init ") && !ended.out.starts_with("init 0\n")) << ended.out;
      EXPECT_EQ(ended.lines(), 1) << ended.err;
    } else {
      expect_nothing_left();
    }
  }
}

TEST_F(FaultsUnderTheLimiter, TheDriversOwnErrorsReachTheProgram) {
  constexpr const char* kRules[] = {"cuInit:fail=100",
                                    "cuCtxCreate_v2:fail=2",
                                    "cuMemAlloc_v2:fail=2",
                                    "cuLaunchKernel:fail=719",
                                    "cuStreamSynchronize:fail=719",
                                    "cuCtxSynchronize:fail=702",
                                    "cuLaunchKernel:fail=719:after=10"};
  for (const auto& [policy, rules] : every_policy_with(kRules)) {
    SCOPED_TRACE(policy + " " + rules);
    policy_ = policy;
    const Ended without = run(rules, false), with = run(rules);
    EXPECT_EQ(with.status, 0) << with.err;
    EXPECT_EQ(with.out, without.out) << with.err;
    EXPECT_GT(with.hits, 0U);
  }
}

// Runs up to the middle; then the GPU is lost.
TEST_F(FaultsUnderTheLimiter, ALostGpuIsAnErrorWithoutAHang) {
  const auto lose = [this](bool limited) {
    auto variables = environment("", limited);
    variables["PROBE_WAIT"] = "1";
    Program program({HEADGATE_TENANTS "/sim-faults-probe"}, variables);
    std::string before, line;
    while (!(line = program.line()).empty() && line != "at work") before += line + "\n";
    EXPECT_TRUE(sim::write_faults(node(), "device0:lost"));
    program.close_stdin();
    Ended ended = finish(program, before);
    ended.hits = hits(63);
    EXPECT_TRUE(sim::write_faults(node(), ""));
    return ended;
  };
  for (const char* policy : kPolicies) {
    policy_ = policy;
    const Ended without = lose(false), with = lose(true);
    EXPECT_GT(without.hits, 0U);
    EXPECT_GT(with.hits, 0U);
    EXPECT_EQ(without.status, 0);
    EXPECT_NE(without.out.find("launches after 46\n"), std::string::npos) << without.out;
    EXPECT_EQ(with.status, 0) << with.err;
    EXPECT_EQ(with.out, without.out) << with.err;
    EXPECT_LE(with.lines(), 1) << with.err;
    expect_nothing_left();
  }
}

// Uses a fault that only counts calls.
TEST_F(FaultsUnderTheLimiter, ARefusalMakesNoDriverCall) {
  ASSERT_FALSE(plain().empty());
  const auto calls = [this](const char* variable, int rounds) {
    const std::uint64_t before = hits();
    auto variables = environment("cu*:delay_us=0", true);
    variables.erase("HEADGATE_COMPUTE");  // the meter's calls depend on time
    variables[variable] = std::to_string(rounds);
    Program program({HEADGATE_TENANTS "/sim-faults-probe"}, variables);
    const Ended ended = finish(program);
    EXPECT_EQ(ended.status, 0) << ended.out << ended.err;
    EXPECT_NE(ended.out.find("as expected: " + std::to_string(rounds) + "\n"), std::string::npos) << ended.out;
    return hits() - before;
  };
  calls("PROBE_REFUSALS", 10);  // measures the node's first context, which takes one more call
  // Of a thousand none asks; what the limiter asks from time to time is no call of a refusal or an allocation.
  const auto each = [&](const char* variable) {
    const auto few = static_cast<double>(calls(variable, 10));
    return std::lround((static_cast<double>(calls(variable, 1010)) - few) / 1000);
  };
  EXPECT_EQ(each("PROBE_REFUSALS"), 0);
  calls("PROBE_PAIRS", 10);  // teaches the share if the driver has slabs
  EXPECT_EQ(each("PROBE_PAIRS"), 2);
}

// `headgate sim fault` while a program runs.
TEST_F(FaultsUnderTheLimiter, TheCommandSetsFaultsInRunningPrograms) {
  const auto command = [this](const std::string& rules) {
    Program program({HEADGATE_COMMAND, "sim", "fault", rules}, {{"HEADGATE_SIM_DIR", node()}});
    return finish(program);
  };
  ASSERT_FALSE(plain().empty());
  EXPECT_EQ(command("cuCtxCreate_v2:fail=46").status, 0);
  EXPECT_NE(run("", false).out.find("context 46\n"), std::string::npos);
  EXPECT_EQ(command("clear").status, 0);
  EXPECT_EQ(run("", false).out, plain());
  const Ended wrong = command("cuNoSuch:fail=1");
  EXPECT_NE(wrong.status, 0);
  EXPECT_NE(wrong.err.find("cuNoSuch"), std::string::npos) << wrong.err;
}

}  // namespace
}  // namespace headgate::e2e
