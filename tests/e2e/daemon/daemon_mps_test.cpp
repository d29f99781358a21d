// Programs of shares that are clients of an MPS server: their kernels run concurrently, so there are no turns. A
// ceiling is enforced by the number of SMs.
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>

#include "daemon_program.hpp"
#include "sim/truth.hpp"

namespace headgate::e2e {
namespace {

class Mps : public ::testing::Test {
 protected:
  // Ended with the object, because its `headgate run` forwards the signal. `before`: shell text between share and
  // program.
  class Tenant {
   public:
    Tenant(const Daemon& daemon, const std::string& share, const std::string& before, bool client)
        : program_({HEADGATE_COMMAND, "run", "--share", share, "--", "/bin/sh", "-c",
                    before + " exec " HEADGATE_LOAD
                             " --duration=60s --kernels=200us --blocks=132 --sync=depth:8 --no-idle-list"},
                   {{"HEADGATE_RUNTIME_DIR", daemon.cli().runtime()},
                    {"CUDA_MPS_PIPE_DIRECTORY", client ? daemon.cli().directory() : ""}}) {}
    ~Tenant() {
      ::kill(program_.pid(), SIGTERM);
      program_.wait();
    }
    Tenant(const Tenant&) = delete;

   private:
    Program program_;
  };
  [[nodiscard]] std::unique_ptr<Tenant> tenant(const std::string& share, const std::string& before = {},
                                               bool client = true) const {
    return std::make_unique<Tenant>(daemon_, share, before, client);
  }
  void share(const std::string& words) const {
    EXPECT_EQ(daemon_.cli().shell("$H share create --mem 8GiB " + words).status, 0);
  }

  [[nodiscard]] snapshot::Gpu gpu() const { return daemon_.snapshot().gpus.at(0); }
  [[nodiscard]] std::string text(const std::string& words) const { return daemon_.cli().shell("$H " + words).out; }
  // Truth: the part of the GPU's SMs and of its time that all programs had in a window of node time.
  struct Part {
    double of_sms = 0, of_time = 0;
  };
  [[nodiscard]] Part had(int milliseconds) const {
    const auto sums = [this] {
      const auto read = sim::read_truth(daemon_.cli().directory() + "/node");
      EXPECT_TRUE(read.has_value());
      double sm_ns = 0;
      for (const auto& process : read->devices.at(0).processes) sm_ns += process.sm_ns;
      return std::tuple(static_cast<double>(read->now_ns), sm_ns, static_cast<double>(read->devices.at(0).busy_ns));
    };
    const auto [from, sms_before, busy_before] = sums();
    rest_ms(milliseconds);
    const auto [to, sms, busy] = sums();
    const Part part{(sms - sms_before) / (to - from), (busy - busy_before) / (to - from)};
    std::printf("%.1f %% of the SMs, %.1f %% of the time\n", 100 * part.of_sms, 100 * part.of_time);
    return part;
  }

  Daemon daemon_{{}, "mps = 1\n"};
};

TEST_F(Mps, TurnsStopWhileClientsRunAndResumeAfterThem) {
  share("alice");
  share("bob");
  auto plain = tenant("alice", {}, false);
  ASSERT_TRUE(eventually([&] { return daemon_.share("alice").processes == 1; }));
  EXPECT_EQ(gpu().policy_in_force, "fair");
  EXPECT_EQ(gpu().mps_clients, 0u);

  auto client = tenant("bob");
  ASSERT_TRUE(eventually([&] { return gpu().policy_in_force == "off"; }));
  EXPECT_EQ(gpu().policy, "fair") << "what was configured stays";
  EXPECT_EQ(gpu().mps_clients, 1u);
  EXPECT_NE(text("gpu ls").find("off (MPS, else fair)"), std::string::npos) << text("gpu ls");
  EXPECT_NE(text("why bob").find("client of an MPS server"), std::string::npos) << text("why bob");
  EXPECT_NE(text("top --once").find(" MPS"), std::string::npos) << text("top --once");
  EXPECT_NE(daemon_.ask("GET", "/metrics").body.find("headgate_gpu_mps_clients{"), std::string::npos);
  const std::string set = text("gpu policy 0 priority");
  EXPECT_NE(set.find("; it is off while"), std::string::npos) << set;
  EXPECT_EQ(gpu().policy_in_force, "off");

  client.reset();
  plain.reset();
  ASSERT_TRUE(eventually([&] { return gpu().policy_in_force == "priority"; }));
  const std::string events = text("events --kind gpu.mps");
  EXPECT_NE(events.find("until they end its policy is off instead of fair"), std::string::npos) << events;
  EXPECT_NE(events.find("its policy is priority"), std::string::npos) << events;
}

// With both limits it would get a sixteenth.
TEST_F(Mps, ACeilingIsAPartOfTheSmsNotOfTheTime) {
  share("quarter --compute 25%");
  const auto client = tenant("quarter");
  ASSERT_TRUE(eventually([&] { return daemon_.share("quarter").level == "mps"; }));
  EXPECT_EQ(daemon_.share("quarter").devices.at(0).sm_ratio, 0.25);
  const Part alone = had(1'000);
  EXPECT_GT(alone.of_sms, 0.15);
  EXPECT_LT(alone.of_sms, 0.27);
  EXPECT_GT(alone.of_time, 0.6);
  EXPECT_NE(text("why quarter").find("25 % of its SMs"), std::string::npos) << text("why quarter");

  // A lower ceiling applies to running programs: half of the time on their SMs.
  ASSERT_EQ(daemon_.cli().shell("$H share set quarter --compute 12.5%").status, 0);
  EXPECT_LT(had(1'500).of_sms, 0.16);
}

TEST_F(Mps, TwoProgramsOfAShareHaveItsCeilingTogether) {
  share("quarter --compute 25%");
  const auto one = tenant("quarter"), other = tenant("quarter");
  ASSERT_TRUE(eventually([&] { return daemon_.share("quarter").devices.at(0).sm_ratio == 0.5; }));
  rest_ms(300);
  const Part both = had(2'000);
  EXPECT_GT(both.of_sms, 0.1);
  EXPECT_LT(both.of_sms, 0.29);
}

TEST_F(Mps, AProgramThatRaisesItsPercentageIsHeldByTimeInstead) {
  share("quarter --compute 25%");
  const auto raised = tenant("quarter", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=100");
  ASSERT_TRUE(eventually([&] { return gpu().mps_clients == 1; }));
  rest_ms(500);
  const Part part = had(1'500);
  EXPECT_GT(part.of_sms, 0.1);
  EXPECT_LT(part.of_sms, 0.29);
  EXPECT_EQ(daemon_.share("quarter").level, "hook");
}

TEST_F(Mps, AVariableDoesNotCountIfNvmlListsNoClient) {
  share("quarter --compute 25%");
  const auto plain = tenant("quarter", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=10", false);
  ASSERT_TRUE(eventually([&] { return daemon_.share("quarter").processes == 1; }));
  rest_ms(500);
  EXPECT_LT(had(1'500).of_sms, 0.29);
  EXPECT_EQ(daemon_.share("quarter").level, "hook");
}

}  // namespace
}  // namespace headgate::e2e
