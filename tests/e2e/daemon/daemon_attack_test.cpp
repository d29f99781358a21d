// Tenants that write arbitrary bytes, against the built daemon. It survives, other accounts stay unchanged, and the
// liar is named within 5 s. The seed is printed; HEADGATE_TEST_SEED sets it.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "daemon_program.hpp"
#include "page_liar.hpp"
#include "sim/truth.hpp"

namespace headgate::e2e {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

constexpr std::uint64_t kGiB = 1ull << 30;
constexpr seconds kNamedWithin{5};

std::uint64_t seed() {
  const char* given = std::getenv("HEADGATE_TEST_SEED");
  static const std::uint64_t chosen = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  return chosen;
}

class DaemonAttack : public ::testing::Test {
 protected:
  void SetUp() override {
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed()));
    ASSERT_EQ(daemon_.cli().shell("$H share create honest --mem 8GiB --compute 40%").status, 0);
    ASSERT_EQ(daemon_.cli().shell("$H share create liar --mem 8GiB --compute 40%").status, 0);
    tenant_ = load("honest");
    ASSERT_TRUE(eventually([&] { return daemon_.share("honest").processes == 1 && honest_bytes() > kGiB; }));
    // The residual is measured shortly after the first allocation.
    ASSERT_TRUE(eventually([&] {
      const std::uint64_t before = honest_bytes();
      rest_ms(1200);
      return honest_bytes() == before;
    }));
    bytes_ = honest_bytes();
  }
  void TearDown() override { end_liar(liar_); }

  std::unique_ptr<Program> load(const std::string& share) const {
    return std::make_unique<Program>(
        std::vector<std::string>{HEADGATE_LOAD, "--mem=1GiB", "--duration=60s", "--no-idle-list"},
        std::map<std::string, std::string>{{"HEADGATE_SHARE", share},
                                           {"HEADGATE_SHARE_DIR", directory(share)},
                                           {"HEADGATE_RUNTIME_DIR", daemon_.cli().runtime()},
                                           {"HEADGATE_SIM_DIR", daemon_.cli().directory() + "/node"},
                                           {"LD_LIBRARY_PATH", SIMULATOR_DIR},
                                           {"LD_PRELOAD", HEADGATE_LIMITER}});
  }
  std::string directory(const std::string& share) const { return daemon_.cli().runtime() + "/shares/" + share; }
  std::uint64_t honest_bytes() const {
    const auto share = daemon_.share("honest");
    return share.devices.empty() ? 0 : share.devices[0].memory_used_bytes;
  }
  std::uint64_t gpu_busy_ns() const {
    const auto truth = sim::read_truth(daemon_.cli().directory() + "/node");
    return truth ? truth->devices.at(0).busy_ns : 0;
  }
  void expect_that_the_honest_share_is_as_it_was() const {
    const auto share = daemon_.share("honest");
    ASSERT_EQ(share.devices.size(), 1u);
    EXPECT_EQ(share.devices[0].memory_used_bytes, bytes_);
    EXPECT_EQ(share.processes, 1u);
    EXPECT_EQ(share.problem, "");
  }
  bool has_event(const std::string& kind, const std::string& share) const {
    return daemon_.ask("GET", "/v1/events").body.contains("\"kind\":\"" + kind + "\",\"severity\":") &&
           events_of(kind, share) > 0;
  }
  std::size_t events_of(const std::string& kind, const std::string& share) const {
    const std::string all = daemon_.ask("GET", "/v1/events").body;
    std::size_t count = 0;
    for (std::size_t at = all.find("\"kind\":\"" + kind + "\""); at != std::string::npos;
         at = all.find("\"kind\":\"" + kind + "\"", at + 1)) {
      if (all.substr(at, 200).contains("\"share\":\"" + share + "\"")) ++count;
    }
    return count;
  }
  void expect_that_every_view_works() const {
    for (const std::string view : {"top --once", "top --once --ascii", "status", "ps", "free", "why", "why liar",
                                   "share ls", "share show liar", "ps --json", "events"}) {
      const Said said = daemon_.cli().shell("$H " + view);
      EXPECT_LT(said.status, 126) << view << ": " << said.err;
      const auto steers = [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f; };
      EXPECT_TRUE(std::ranges::none_of(said.out + said.err, steers)) << view << ": " << said.out << said.err;
    }
    EXPECT_EQ(daemon_.ask("GET", "/metrics").status, 200);
    EXPECT_EQ(daemon_.ask("GET", "/v1/processes").status, 200);
  }
  std::size_t descriptors() const {
    std::error_code error;
    std::size_t count = 0;
    for (std::filesystem::directory_iterator at("/proc/" + std::to_string(daemon_.pid()) + "/fd", error), end;
         !error && at != end; at.increment(error))
      ++count;
    return count;
  }

  Daemon daemon_;
  std::unique_ptr<Program> tenant_;
  std::uint64_t bytes_ = 0;
  pid_t liar_ = -1;
};

TEST_F(DaemonAttack, AShutDownDoorbellIsNamedAndHarmsNoOther) {
  liar_ = start_liar(directory("liar"), Lie::bell, seed());
  ASSERT_GT(liar_, 0);
  ASSERT_TRUE(eventually([&] { return has_event("share.deaf", "liar"); }));
  EXPECT_EQ(events_of("share.deaf", "honest"), 0u);
  expect_that_every_view_works();
  expect_that_the_honest_share_is_as_it_was();
}

TEST_F(DaemonAttack, ACorruptedPageIsNamedAndHarmsNoOther) {
  const auto begun = Clock::now();
  liar_ = start_liar(directory("liar"), Lie::words, seed());
  ASSERT_GT(liar_, 0);
  ASSERT_TRUE(eventually([&] { return has_event("share.damaged", "liar"); }));
  EXPECT_LT(Clock::now() - begun, kNamedWithin);
  const std::string problem = daemon_.share("liar").problem;
  EXPECT_NE(problem.find("no limiter does that"), std::string::npos) << problem;
  EXPECT_NE(problem.find("process " + std::to_string(liar_)), std::string::npos) << problem;
  const Said why = daemon_.cli().shell("$H why liar");
  EXPECT_NE((why.out + why.err).find("the usage page of the share liar"), std::string::npos) << why.out << why.err;
  const auto counted = Clock::now();
  const std::uint64_t busy_ns = gpu_busy_ns();
  for (const auto end = begun + seconds(12); Clock::now() < end;) {
    expect_that_every_view_works();
    expect_that_the_honest_share_is_as_it_was();
    rest_ms(200);
  }
  // Nothing else computes: the share keeps its 40 %, and its ceiling still holds.
  const double had = static_cast<double>(gpu_busy_ns() - busy_ns) /
                     std::chrono::duration<double, std::nano>(Clock::now() - counted).count();
  std::printf("the honest share had %.1f %% of the GPU\n", had * 100);
  EXPECT_GT(had, 0.2);
  EXPECT_LT(had, 0.43);
  EXPECT_EQ(events_of("share.damaged", "liar"), 1u) << "told more than once";
  EXPECT_EQ(events_of("share.damaged", "honest"), 0u);
  // Meanwhile another process can join the honest share, and its memory is charged correctly.
  const auto second = load("honest");
  EXPECT_TRUE(eventually([&] { return daemon_.share("honest").processes == 2; }));
  second->kill_now();
  second->wait();
  EXPECT_TRUE(eventually([&] { return daemon_.share("honest").processes == 1 && honest_bytes() == bytes_; }))
      << honest_bytes();
  // Restarting the daemon during the attack stops no other share.
  daemon_.kill_and_wait();
  daemon_.start();
  expect_that_the_honest_share_is_as_it_was();
  expect_that_every_view_works();
  EXPECT_FALSE(daemon_.share("liar").problem.empty()) << "the problem was forgotten at the restart";
  EXPECT_NE(daemon_.cli().shell("$H share rm liar").status, 0) << "with the liar in it";
  end_liar(liar_);
  liar_ = -1;
  EXPECT_TRUE(eventually([&] { return daemon_.cli().shell("$H share rm liar").status == 0; }))
      << daemon_.cli().shell("$H share rm liar").err;
  EXPECT_EQ(daemon_.cli().shell("$H share create liar --mem 8GiB --compute 40%").status, 0);
  EXPECT_EQ(daemon_.share("liar").problem, "");
}

TEST_F(DaemonAttack, AResizedPageEndsNeitherDaemonNorSuccessor) {
  const auto begun = Clock::now();
  liar_ = start_liar(directory("liar"), Lie::length, seed());
  ASSERT_GT(liar_, 0);
  ASSERT_TRUE(eventually([&] { return has_event("share.damaged", "liar"); }));
  EXPECT_LT(Clock::now() - begun, kNamedWithin);
  for (int restart = 0; restart < 4; ++restart) {
    for (int i = 0; i < 5; ++i) {
      (void)daemon_.ask("DELETE", "/v1/shares/liar");
      EXPECT_EQ(daemon_.ask("GET", "/v1/snapshot").status, 200);
    }
    expect_that_the_honest_share_is_as_it_was();
    daemon_.kill_and_wait();
    daemon_.start();
    ASSERT_FALSE(HasFatalFailure());
  }
  // A tenant that erases its slot is in no share, so the share may be removed. The audit then reports a process that
  // still uses the GPU.
  EXPECT_EQ(daemon_.ask("GET", "/healthz").status, 200);
}

TEST_F(DaemonAttack, MemoryTakenOutOfTheAccountIsNamed) {
  const auto begun = Clock::now();
  liar_ = start_liar(directory("liar"), Lie::quiet, seed());
  ASSERT_GT(liar_, 0);
  ASSERT_TRUE(eventually([&] { return has_event("share.damaged", "liar"); }));
  EXPECT_LT(Clock::now() - begun, kNamedWithin);
  EXPECT_NE(daemon_.share("liar").problem.find("counts 0 bytes in use, and its processes 104857600"), std::string::npos)
      << daemon_.share("liar").problem;
  expect_that_the_honest_share_is_as_it_was();
}

// Each of its claims took a tenth of a second to check, at each look.
TEST_F(DaemonAttack, ClaimsOfLargeProcessesDoNotBlockTheDaemon) {
  liar_ = start_liar(directory("liar"), Lie::claims, seed());
  ASSERT_GT(liar_, 0);
  const auto begun = Clock::now();
  ASSERT_TRUE(eventually([&] {
    EXPECT_EQ(daemon_.ask("GET", "/healthz").status, 200);
    return has_event("share.damaged", "liar");
  }));
  EXPECT_LT(Clock::now() - begun, kNamedWithin);
  EXPECT_NE(daemon_.share("liar").problem.find(" slots at once in the name of process "), std::string::npos)
      << daemon_.share("liar").problem;
  expect_that_the_honest_share_is_as_it_was();
  // A damaged, expired share is checked once a second, so it adds no load to the loop.
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(daemon_.cli().shell("$H share rm liar").status == 0);
    EXPECT_EQ(daemon_.ask("GET", "/healthz").status, 200);
  }
}

TEST_F(DaemonAttack, ANoisyTenantIsNamedAndShutsOutNoOther) {
  const std::size_t before = descriptors();
  const auto begun = Clock::now();
  liar_ = start_liar(directory("liar"), Lie::messages, seed());
  ASSERT_GT(liar_, 0);
  ASSERT_TRUE(eventually([&] { return has_event("tenant.lied", "liar"); }));
  EXPECT_LT(Clock::now() - begun, kNamedWithin);
  while (Clock::now() < begun + seconds(6)) {
    expect_that_the_honest_share_is_as_it_was();
    // Tests the control socket, and a limiter at the other share's tenant socket.
    EXPECT_EQ(daemon_.cli().shell("$H share ls").status, 0);
    const auto newcomer = load("honest");
    EXPECT_TRUE(eventually([&] { return daemon_.share("honest").processes == 2; }));
    newcomer->kill_now();
    newcomer->wait();
    EXPECT_TRUE(eventually([&] { return daemon_.share("honest").processes == 1 && honest_bytes() == bytes_; }));
  }
  expect_that_every_view_works();
  // Events of other shares were not pushed out of the log.
  EXPECT_GE(events_of("share.created", "honest"), 1u);
  EXPECT_LT(events_of("tenant.lied", "liar"), 1000u);
  end_liar(liar_);
  liar_ = -1;
  EXPECT_TRUE(eventually([&] { return descriptors() <= before + 4; })) << descriptors() << ", before: " << before;
}

}  // namespace
}  // namespace headgate::e2e
