// Random accidents: tenants are killed, stopped and continued, the daemon is killed and restarted, shares are made,
// changed and removed. At the end the daemon's figures and the ledgers must match what the simulated cards really did.
// Only the test reads the truth. HEADGATE_TEST_SEED repeats a run's choices; HEADGATE_CHAOS_SECONDS is its length (20;
// a minute in .ci/nightly).
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "daemon_program.hpp"
#include "sim/truth.hpp"

namespace headgate::e2e {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::size_t kMaxTenants = 10, kMaxShares = 6;

std::uint64_t number_from(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

class Chaos {
 public:
  explicit Chaos(std::uint64_t seed) : random_(seed) {}
  ~Chaos() {
    for (auto& tenant : tenants_) ::kill(tenant.program->pid(), SIGCONT);
  }

  void run(std::chrono::seconds length) {
    for (int i = 0; i < 3; ++i) make_share();
    const auto begun = Clock::now();
    auto told = begun;
    while (Clock::now() < begun + length && !::testing::Test::HasFatalFailure()) {
      accident();
      if (Clock::now() - told > std::chrono::seconds(10)) {
        told = Clock::now();
        say(std::chrono::duration_cast<std::chrono::seconds>(told - begun).count());
      }
      rest_ms(static_cast<int>(random_() % 150));
    }
    say(std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begun).count());
  }

  // Checks what must hold while the survivors work, and after they are gone.
  void judge() {
    for (auto& tenant : tenants_) proceed(tenant);
    for (const auto& name : paused_) (void)verb("POST", "/v1/shares/" + name + "/resume");
    EXPECT_GT(started_, 5u) << "nothing has happened";
    EXPECT_TRUE(eventually([&] { return objection(true).empty(); })) << objection(true);
    std::uint64_t used = 0;
    for (const auto& share : daemon_.snapshot().shares) used += share.devices.at(0).memory_used_bytes;
    std::printf("%zu tenants go on, with %llu MiB\n", tenants_.size(), static_cast<unsigned long long>(used / kMiB));
    for (auto& tenant : tenants_) {
      tenant.program->kill_now();
      tenant.program->wait();
    }
    killed_ += tenants_.size();
    tenants_.clear();
    EXPECT_TRUE(eventually([&] { return objection(false).empty(); })) << objection(false);
    judge_time();
    for (const auto& [name, limit] : shares_) EXPECT_EQ(verb("DELETE", "/v1/shares/" + name), 200) << name;
    EXPECT_TRUE(daemon_.snapshot().shares.empty());
    EXPECT_EQ(daemon_.ask("GET", "/readyz").status, 200);
  }

 private:
  struct Tenant {
    std::string share;
    bool stopped = false;
    std::unique_ptr<Program> program;
  };

  bool chance(unsigned in_a_hundred) { return random_() % 100 < in_a_hundred; }
  template <typename List>
  auto any_of(List& list) {
    return std::next(list.begin(), static_cast<std::ptrdiff_t>(random_() % list.size()));
  }

  // Returns the status; 0 if the daemon did not reply.
  int verb(const std::string& method, const std::string& target, const std::string& body = {}) const {
    const auto reply = http::exchange({.path = daemon_.socket()}, {.method = method, .target = target, .body = body},
                                      milliseconds(20'000));
    return reply ? reply->status : 0;
  }

  void accident() {
    const auto dice = random_() % 100;
    if (dice < 30) start_tenant();
    else if (dice < 48) kill_tenant();
    else if (dice < 60) stop_or_continue();
    else if (dice < 72) change_share();
    else if (dice < 80) make_share();
    else if (dice < 88) remove_share();
    else if (dice < 94) restart_daemon();
    else pause_or_resume();
  }

  void start_tenant() {
    if (shares_.empty() || tenants_.size() >= kMaxTenants) return;
    const std::string share = any_of(shares_)->first;
    const std::string bytes = std::to_string(16 * (1 + random_() % 24)) + "MiB";
    tenants_.push_back(
        {share, false,
         std::make_unique<Program>(
             std::vector<std::string>{HEADGATE_LOAD, "--mem=" + bytes, "--duration=60s", "--no-idle-list"},
             std::map<std::string, std::string>{
                 {"HEADGATE_SHARE", share},
                 {"HEADGATE_FAIL_POLICY", "closed"},  // else it would run without limits if its share is gone
                 {"HEADGATE_SHARE_DIR", daemon_.cli().runtime() + "/shares/" + share},
                 {"HEADGATE_RUNTIME_DIR", daemon_.cli().runtime()},
                 {"HEADGATE_SIM_DIR", daemon_.cli().directory() + "/node"},
                 {"LD_LIBRARY_PATH", SIMULATOR_DIR},
                 {"LD_PRELOAD", HEADGATE_LIMITER}})});
    share_of_[tenants_.back().program->pid()] = share;
    ++started_;
  }

  void kill_tenant() {
    if (tenants_.empty()) return;
    const auto tenant = any_of(tenants_);
    tenant->program->kill_now();  // stopped ones too
    tenant->program->wait();
    tenants_.erase(tenant);
    ++killed_;
  }

  void proceed(Tenant& tenant) {
    ::kill(tenant.program->pid(), SIGCONT);
    tenant.stopped = false;
  }

  void stop_or_continue() {
    if (tenants_.empty()) return;
    const auto tenant = any_of(tenants_);
    if (tenant->stopped) return proceed(*tenant);
    ::kill(tenant->program->pid(), SIGSTOP);
    tenant->stopped = true;
    ++stopped_;
  }

  void make_share() {
    if (shares_.size() >= kMaxShares) return;
    const std::string name = "s" + std::to_string(++names_);
    const std::uint64_t limit = 1024 + random_() % 4096;
    if (change("POST", "/v1/shares",
               R"({"name":")" + name + R"(","mem":")" + std::to_string(limit) + R"(MiB","compute":")" +
                   std::to_string(5 + random_() % 30) + R"(%","overcommit":true})") == 201)
      shares_[name] = limit * kMiB;
    ++changes_;
  }

  void change_share() {
    if (shares_.empty()) return;
    const auto share = any_of(shares_);
    const std::uint64_t limit = 1024 + random_() % 4096;
    if (change("PATCH", "/v1/shares/" + share->first,
               R"({"mem":")" + std::to_string(limit) + R"(MiB","compute":")" + std::to_string(5 + random_() % 30) +
                   "%\"}") == 200)
      share->second = limit * kMiB;
    ++changes_;
  }

  void remove_share() {
    if (shares_.size() < 3) return;
    const auto share = any_of(shares_);
    if (change("DELETE", "/v1/shares/" + share->first) == 200) {
      paused_.erase(share->first);
      shares_.erase(share);
    }
    ++changes_;
  }

  void pause_or_resume() {
    if (shares_.empty()) return;
    const std::string name = any_of(shares_)->first;
    const bool resume = paused_.contains(name);
    if (verb("POST", "/v1/shares/" + name + (resume ? "/resume" : "/pause")) != 200) return;
    if (resume) paused_.erase(name);
    else paused_.insert(name);
  }

  // Makes a change during which the daemon sometimes dies. Then its result is unknown, so the next daemon is asked.
  int change(const std::string& method, const std::string& target, const std::string& body = {}) {
    if (!chance(25)) return verb(method, target, body);
    const auto delay = std::chrono::microseconds(random_() % 4000);
    int answer = 0;
    std::thread asking([&] { answer = verb(method, target, body); });
    std::this_thread::sleep_for(delay);
    daemon_.kill_and_wait();
    asking.join();
    daemon_.start();
    ++deaths_;
    if (answer == 0) take_over_what_there_is();
    return answer;
  }

  void take_over_what_there_is() {
    const auto snapshot = daemon_.snapshot();
    std::map<std::string, std::uint64_t> there;
    for (const auto& share : snapshot.shares) {
      EXPECT_EQ(share.devices.size(), 1u) << share.name << ": " << share.problem;
      if (!share.devices.empty()) there[share.name] = share.devices[0].memory_limit_bytes.value_or(0);
    }
    // At most one share differs, and only the requested one was created or removed.
    std::size_t other = 0;
    for (const auto& [name, limit] : shares_) other += there.contains(name) && there[name] == limit ? 0 : 1;
    for (const auto& [name, limit] : there) other += shares_.contains(name) ? 0 : 1;
    EXPECT_LE(other, 1u) << "a death of the daemon changed more than what was asked for";
    shares_ = there;
    std::erase_if(paused_, [&](const auto& name) { return !shares_.contains(name); });
  }

  void restart_daemon() {
    if (chance(70)) {
      daemon_.kill_and_wait();
    } else {
      EXPECT_EQ(daemon_.stop(), 0);
    }
    if (chance(50)) rest_ms(static_cast<int>(random_() % 400));
    daemon_.start();
    ++deaths_;
  }

  void say(long long second) const {
    std::printf("%3lld s: %zu tenants started, %zu killed, %zu stopped, %zu shares changed, %zu deaths of the daemon\n",
                second, started_, killed_, stopped_, changes_, deaths_);
    std::fflush(stdout);
  }

  // Compares the daemon's snapshot with the cards. Returns the first difference; empty if they agree.
  std::string objection(bool living) {
    // A tenant that started while no daemon ran may have given up. It holds nothing then.
    std::erase_if(tenants_, [](Tenant& tenant) { return ::kill(tenant.program->pid(), 0) != 0; });
    const auto truth = sim::read_truth(daemon_.cli().directory() + "/node");
    if (!truth) return truth.error().message;
    const auto snapshot = daemon_.snapshot();
    const auto after = sim::read_truth(daemon_.cli().directory() + "/node");
    std::map<std::string, std::uint64_t> bytes;
    std::map<std::string, std::uint32_t> processes;
    for (const auto& process : truth->devices.at(0).processes) {
      if (!process.alive) continue;
      const std::string& share = share_of_[process.pid];
      bytes[share] += process.bytes + process.slack_bytes + process.context_bytes;
      ++processes[share];
    }
    if (!after || after->devices.at(0).used_bytes != truth->devices.at(0).used_bytes) return "the card was not at rest";
    if (snapshot.shares.size() != shares_.size())
      return std::to_string(snapshot.shares.size()) + " shares, made were " + std::to_string(shares_.size());
    for (const auto& share : snapshot.shares) {
      if (!share.problem.empty()) return share.name + ": " + share.problem;
      const auto& device = share.devices.at(0);
      if (device.memory_limit_bytes.value_or(0) != shares_[share.name])
        return share.name + " has a limit of " + std::to_string(device.memory_limit_bytes.value_or(0)) + ", set was " +
               std::to_string(shares_[share.name]);
      if (device.memory_used_bytes != bytes[share.name])
        return share.name + " counts " + std::to_string(device.memory_used_bytes) + " bytes, the card " +
               std::to_string(bytes[share.name]);
      if (device.memory_draining_bytes != 0) return share.name + " drains";
      if (share.processes != processes[share.name])
        return share.name + " counts " + std::to_string(share.processes) + " processes, the card " +
               std::to_string(processes[share.name]);
    }
    if (!living && truth->devices.at(0).used_bytes != 0)
      return "the card holds " + std::to_string(truth->devices.at(0).used_bytes) + " bytes";
    if (snapshot.node.unattended_processes != 0)
      return std::to_string(snapshot.node.unattended_processes) + " processes in no share";
    return {};
  }

  // Checks the GPU time of the remaining shares. A killed process loses its open bracket. Until the next daemon copies
  // marks, a share is charged for its neighbours' slices.
  void judge_time() {
    constexpr double kLostAtADeath_ns = 20e6, kUntoldAtADaemonsDeath_ns = 2e6;
    const auto truth = sim::read_truth(daemon_.cli().directory() + "/node");
    ASSERT_TRUE(truth);
    std::map<std::string, double> held;
    std::map<std::string, int> deaths;
    for (const auto& process : truth->devices.at(0).processes) {
      held[share_of_[process.pid]] += static_cast<double>(process.held_ns);
      ++deaths[share_of_[process.pid]];
    }
    for (const auto& share : daemon_.snapshot().shares) {
      const auto counted = static_cast<double>(share.devices.at(0).held_ns);
      const double truly = held[share.name], slack = 0.02 * truly + kLostAtADeath_ns * deaths[share.name] +
                                                     kUntoldAtADaemonsDeath_ns * static_cast<double>(deaths_);
      std::printf("%s: %.1f ms held by the ledger, %.1f by the card, %d processes\n", share.name.c_str(), counted / 1e6,
                  truly / 1e6, deaths[share.name]);
      EXPECT_LE(std::abs(counted - truly), slack) << share.name << ", in ns";
    }
  }

  std::mt19937_64 random_;
  Daemon daemon_;
  std::map<std::string, std::uint64_t> shares_;  // with their memory limits
  std::set<std::string> paused_;
  std::vector<Tenant> tenants_;
  std::map<pid_t, std::string> share_of_;
  std::size_t started_ = 0, killed_ = 0, stopped_ = 0, changes_ = 0, deaths_ = 0, names_ = 0;
};

TEST(DaemonChaos, AccountsMatchTheCardsAfterAccidents) {
  const std::uint64_t seed = number_from("HEADGATE_TEST_SEED", std::random_device()());
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Chaos chaos(seed);
  ASSERT_FALSE(::testing::Test::HasFatalFailure());
  chaos.run(std::chrono::seconds(number_from("HEADGATE_CHAOS_SECONDS", 20)));
  chaos.judge();
}

}  // namespace
}  // namespace headgate::e2e
