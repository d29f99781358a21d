// GPU time missing from all accounts: shares with weights only, on one GPU, one of which claims that it held nothing.
// It is named within 5 s. The honest ones never are, however irregular their work looks.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "daemon_program.hpp"
#include "page_liar.hpp"
#include "snapshot/json.hpp"

namespace headgate::e2e {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

class DaemonMisreport : public ::testing::Test {
 protected:
  void TearDown() override { end_liar(liar_); }

  [[nodiscard]] std::string directory(const std::string& share) const {
    return daemon_.cli().runtime() + "/shares/" + share;
  }
  // Creates a share of that name and starts a program in it.
  std::unique_ptr<Program> start(const std::string& share, const std::string& words, std::vector<std::string> work) {
    EXPECT_EQ(daemon_.cli().shell("$H share create " + share + " --mem 4GiB " + words).status, 0);
    std::vector<std::string> command{HEADGATE_LOAD, "--duration=60s", "--no-idle-list"};
    command.insert(command.end(), work.begin(), work.end());
    return std::make_unique<Program>(
        command, std::map<std::string, std::string>{{"HEADGATE_SHARE", share},
                                                    {"HEADGATE_SHARE_DIR", directory(share)},
                                                    {"HEADGATE_RUNTIME_DIR", daemon_.cli().runtime()},
                                                    {"HEADGATE_SIM_DIR", daemon_.cli().directory() + "/node"},
                                                    {"LD_LIBRARY_PATH", SIMULATOR_DIR},
                                                    {"LD_PRELOAD", HEADGATE_LIMITER}});
  }
  [[nodiscard]] std::vector<snapshot::Event> findings() const {
    auto events = snapshot::from_json<std::vector<snapshot::Event>>(daemon_.ask("GET", "/v1/events").body);
    if (!events) return {};
    std::erase_if(*events, [](const auto& event) { return !event.kind.starts_with("audit."); });
    return *events;
  }

  Daemon daemon_;
  pid_t liar_ = -1;
};

TEST_F(DaemonMisreport, AShareThatReportsNothingHeldIsNamed) {
  const auto bursty = start("bursty", "--weight 3", {"--kernels=20us", "--sync=batch:50", "--gap=5ms"});
  const auto latency = start("latency", "--class latency", {"--kernels=200us", "--sync=each", "--gap=5ms"});
  const auto graphs = start("graphs", "", {"--kernels=20us", "--graph=20", "--sync=depth:4"});
  const auto unpaid = start("unpaid", "", {"--kernels=1ms", "--sync=depth:4"});
  for (const std::string share : {"bursty", "latency", "graphs", "unpaid"})
    ASSERT_TRUE(eventually([&] { return daemon_.share(share).devices.at(0).held_ns > 20'000'000; }))
        << share << ": " << daemon_.ask("GET", "/v1/snapshot").body;
  EXPECT_TRUE(findings().empty());
  const auto begun = Clock::now();
  liar_ = start_liar(directory("unpaid"), Lie::unpaid, 1);
  ASSERT_GT(liar_, 0);
  ASSERT_TRUE(eventually([&] { return !findings().empty(); })) << daemon_.ask("GET", "/v1/snapshot").body;
  while (Clock::now() < begun + seconds(20)) {
    for (const auto& finding : findings()) {
      EXPECT_EQ(finding.share, "unpaid") << finding.text;
      EXPECT_EQ(finding.kind, "audit.compute") << finding.text;
      EXPECT_EQ(finding.pid, static_cast<std::uint32_t>(unpaid->pid()));
      EXPECT_NE(finding.text.find("busy according to the driver, the whole share 0 % according to its ledger"),
                std::string::npos)
          << finding.text;
    }
    ASSERT_FALSE(HasFailure());
    rest_ms(500);
  }
  for (const std::string share : {"bursty", "latency", "graphs"})
    EXPECT_EQ(daemon_.share(share).processes, 1u) << share << " ended before the test did";
}

}  // namespace
}  // namespace headgate::e2e
