// Kernel faults, forked children and calls at exit: the program sees the same with and without the limiter, and the
// share's accounts match the card.
#include <gtest/gtest.h>

#include <string>

#include "guest/ledger/account.hpp"
#include "guest/ledger/pages.hpp"
#include "guest/ledger/slot.hpp"
#include "sim/faults.hpp"
#include "sim/kernel_faults.hpp"
#include "sim/node.hpp"
#include "sim/truth.hpp"
#include "sim_program.hpp"

namespace headgate::e2e {
namespace {

constexpr std::uint64_t kCheckpointed = 100 << 20;

class CrashesUnderTheLimiter : public testing::Test {
 protected:
  void SetUp() override {
    sim::Profile profile = *sim::find_profile("tiny");
    profile.watchdog_ns = 400'000'000;
    const auto made = sim::create_node(node_.path(), profile);
    ASSERT_TRUE(made) << made.error().message;
  }
  void TearDown() override {
    if (pages_.usage != nullptr) ledger::close_pages(pages_);
  }

  // Returns the program's output. With the limiter, checks the accounts at each "hold".
  std::string run(const std::string& what, bool limited) {
    std::map<std::string, std::string> environment = {{"LD_LIBRARY_PATH", HEADGATE_SIM_LIBRARIES},
                                                      {"HEADGATE_SIM_DIR", node_.path()}};
    if (limited) {
      environment.insert({{"LD_PRELOAD", HEADGATE_LIMITER},
                          {"HEADGATE_RUNTIME_DIR", runtime_.path()},
                          {"HEADGATE_SHARE", "crash"},
                          {"HEADGATE_MEM", "1GiB"},
                          {"HEADGATE_COMPUTE", "60%"},
                          {"HEADGATE_LOG", "warn"}});
    }
    Program program({HEADGATE_TENANTS "/sim-crash-probe", what}, environment);
    std::string all;
    for (std::string line; !(line = program.line()).empty(); all += line + "\n") {
      if (!line.starts_with("hold ")) continue;
      if (limited) {
        EXPECT_EQ(used(), line == "hold checkpointed" ? kCheckpointed : true_bytes()) << what << ", " << line;
      }
      program.say("");
    }
    EXPECT_EQ(program.wait(), 0) << program.errors();
    return all;
  }
  std::uint64_t used() {
    if (pages_.usage == nullptr && ledger::open_share(runtime_.path().c_str(), "crash", ledger::Access::owner, pages_))
      throw std::runtime_error("the share's pages cannot be opened");
    return ledger::used_bytes(*pages_.usage, 0);
  }
  std::uint64_t true_bytes() const {
    const auto read = sim::read_truth(node_.path());
    if (!read) throw std::runtime_error(read.error().message);
    std::uint64_t sum = 0;
    for (const auto& process : read->devices.at(0).processes) sum += process.bytes;
    return sum;
  }
  void expect_the_same(const std::string& what, const std::string& proof) {
    SCOPED_TRACE(what);
    const std::string without = run(what, false), with = run(what, true);
    EXPECT_EQ(with, without);
    EXPECT_NE(without.find(proof), std::string::npos) << without;
    ledger::reap_dead(*(used(), pages_.usage));
    EXPECT_EQ(used(), 0u);
  }

  Directory node_, runtime_;
  ledger::SharePages pages_;
};

TEST_F(CrashesUnderTheLimiter, EachKernelFaultLeavesExactAccounts) {
  for (const sim::KernelFault& fault : sim::kKernelFaults) {
    const std::string code = std::to_string(fault.error);
    expect_the_same(std::string(fault.name),
                    "\nsynchronize " + code + "\nallocate managed " + code + "\nlaunch " + code + "\n");
  }
}

TEST_F(CrashesUnderTheLimiter, AForkedChildHasNoDriver) {
  expect_the_same("fork", "\ninit in the child 3\nallocate managed 3\nlaunch 3\n");
}

TEST_F(CrashesUnderTheLimiter, GreenContextMemoryEndsWithThePrimary) {
  expect_the_same("green", "\nthe green one 0\n");
}

// The bytes stay charged to its share; otherwise there might be no room when it is restored.
TEST_F(CrashesUnderTheLimiter, CheckpointedMemoryStaysTheShares) {
  expect_the_same("checkpoint", "\nsynchronize 0\nhold before\nlock 0\ncheckpoint 0\nhold checkpointed\nrestore 0\n");
}

TEST_F(CrashesUnderTheLimiter, WrongCallsGetTheDriversAnswers) { expect_the_same("wrong", "cuMemAlloc_v2 201\n"); }

TEST_F(CrashesUnderTheLimiter, CallsAfterTheDriversExitReportIt) { expect_the_same("exit", "\nlaunch 4\n"); }

}  // namespace
}  // namespace headgate::e2e
