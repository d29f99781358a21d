// The arbiter's thread over real pages; the test plays the limiters.
#include "node/arbitration.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/test_untrusted_socket.hpp"
#include "guest/ledger/slot.hpp"

namespace headgate::node {
namespace {

using namespace std::chrono_literals;
using schedule::Gate;

constexpr const char* kGpu = "GPU-00000000-0000-0000-0000-000000000001";

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

template <typename Condition>
bool soon(Condition holds) {
  for (int i = 0; i < 5'000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

// A share with one process in it.
struct Tenant {
  ledger::SharePages pages;
  ledger::SlotRef slot;
  UniqueFd bell;

  [[nodiscard]] Gate gate() const { return static_cast<Gate>(pages.policy->devices[0].gate.load()); }
  [[nodiscard]] std::uint64_t beats() const { return pages.policy->heartbeat.load(); }
  [[nodiscard]] ledger::SlotDevice& word() const { return pages.usage->slots[slot.slot].devices[0]; }
  void ring() const { (void)::send(bell.get(), "!", 1, MSG_DONTWAIT | MSG_NOSIGNAL); }
  void want(bool wanting = true) const {
    word().waiting.store(wanting ? 1 : 0);
    word().pulse.fetch_add(1);
    pages.usage->compute[0].requests.fetch_add(1);
    ring();
  }
  // Reports that so much work is in flight from now on.
  void work(std::int64_t ns) const {
    word().waiting.store(0);
    word().work_until_ns.store(now_ns() + ns);
    word().pulse.fetch_add(1);
    pages.usage->compute[0].requests.fetch_add(1);
  }
  void rest() const { word().work_until_ns.store(0); }
};

class Arbitrated : public testing::Test {
 protected:
  void SetUp() override {
    const char* const scratch = std::getenv("TMPDIR");
    std::string path = std::string(scratch != nullptr ? scratch : "/tmp") + "/arbitration.XXXXXX";
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    base_ = path;
    start();
  }
  void TearDown() override {
    arbitration_.reset();
    for (auto& [name, tenant] : tenants_) ledger::close_pages(tenant.pages);
    std::filesystem::remove_all(base_);
  }
  void start() {
    arbitration_.emplace(std::vector<std::string>{kGpu}, [this](const std::string& share, ledger::Ring what) {
      if (share == "a") (what == ledger::Ring::memory ? memory_ : readings_).fetch_add(1);
    });
    ASSERT_TRUE(arbitration_->start());
    for (auto& [name, tenant] : tenants_) enter(name, tenant);
  }
  void enter(const std::string& name, Tenant& tenant) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    tenant.bell = UniqueFd(ends[1]);
    const auto added = arbitration_->add(base_, name, {}, UniqueFd(ends[0]));
    ASSERT_TRUE(added) << added.error().message;
  }
  Tenant& tenant(const std::string& name, std::uint32_t weight = 100, ledger::Level level = ledger::Level::hook) {
    Tenant& tenant = tenants_[name];
    ledger::ShareGrant grant;
    std::strcpy(grant.name, name.c_str());
    grant.device_count = 1;
    std::strcpy(grant.devices[0].uuid, kGpu);
    grant.devices[0].weight = weight;
    grant.level = level;
    EXPECT_FALSE(ledger::create_share(base_.c_str(), grant, ledger::Access::owner, tenant.pages));
    EXPECT_EQ(ledger::claim_for_self(*tenant.pages.usage, tenant.slot), ledger::ClaimResult::claimed);
    enter(name, tenant);
    return tenant;
  }

  std::string base_;
  std::map<std::string, Tenant> tenants_;
  std::atomic<int> memory_{0}, readings_{0};
  std::optional<Arbitration> arbitration_;
};

TEST_F(Arbitrated, RingsForOtherReasonsAreForwarded) {
  const Tenant& a = tenant("a");
  for (const ledger::Ring what : {ledger::Ring::turn, ledger::Ring::memory, ledger::Ring::reading})
    ASSERT_EQ(::send(a.bell.get(), &what, sizeof what, MSG_DONTWAIT | MSG_NOSIGNAL), 1);
  EXPECT_TRUE(soon([&] { return memory_ == 1 && readings_ == 1; }));
}

// Under MPS and MIG kernels of several shares run at once, and there are no turns.
TEST_F(Arbitrated, AShareWithoutTurnsIsHeardForMemory) {
  const Tenant& a = tenant("a", 100, ledger::Level::mps);
  tenant("mig", 100, ledger::Level::mig);
  EXPECT_TRUE(arbitration_->board_descriptors("a").empty());
  EXPECT_TRUE(arbitration_->board_descriptors("mig").empty());
  const ledger::Ring what = ledger::Ring::memory;
  ASSERT_EQ(::send(a.bell.get(), &what, sizeof what, MSG_DONTWAIT | MSG_NOSIGNAL), 1);
  EXPECT_TRUE(soon([&] { return memory_ == 1; }));
  EXPECT_EQ(a.gate(), Gate::open);
}

TEST_F(Arbitrated, ALoneShareRingsOnceAndItsGateStaysOpen) {
  const Tenant& a = tenant("a");
  EXPECT_EQ(a.gate(), Gate::open_notify);
  EXPECT_EQ(a.pages.policy->devices[0].arbitrated.load(), 1u);
  a.work(1'000'000);
  a.ring();
  ASSERT_TRUE(soon([&] { return a.gate() == Gate::open; }));
  const auto before = arbitration_->figures();
  std::this_thread::sleep_for(100ms);
  EXPECT_LE(arbitration_->figures().decisions.count, before.decisions.count + 1);
  EXPECT_EQ(arbitration_->figures().gate_writes, before.gate_writes);
}

TEST_F(Arbitrated, TwoSharesTakeTurnsWhileTheHeartbeatAdvances) {
  const Tenant &a = tenant("a"), &b = tenant("b");
  a.work(3'600'000'000'000);
  a.ring();
  ASSERT_TRUE(soon([&] { return a.gate() == Gate::open; }));
  b.want();
  ASSERT_TRUE(soon([&] { return b.gate() == Gate::open && a.gate() == Gate::queued; }));
  b.work(3'600'000'000'000);
  a.want();
  const std::uint64_t beats = a.beats();
  EXPECT_TRUE(soon([&] { return a.gate() == Gate::open; }));
  EXPECT_GT(a.beats(), beats);
}

// Only its marks say that it uses its turns: while they are believed, no other share gets one.
TEST_F(Arbitrated, MarkedTimeWithoutAChargeKeepsNoShareOut) {
  const Tenant &honest = tenant("a"), &liar = tenant("b");
  auto& lies = liar.pages.usage->compute[0].coverage;
  auto& account = honest.pages.usage->compute[0];
  std::int64_t had_ns = 0, all_ns = 0, seen_ns = now_ns();
  const auto has_half = [&] {
    lies.mark(seen_ns, now_ns() + 5'000'000);
    liar.work(5'000'000);
    liar.word().waiting.store(1);
    const std::int64_t at_ns = now_ns();
    const bool open = honest.gate() == Gate::open;
    if (open) {
      account.held_ns.fetch_add(static_cast<std::uint64_t>(account.coverage.mark(seen_ns, at_ns)));
      honest.work(5'000'000);
    } else {
      honest.rest();
      honest.want();
    }
    had_ns += open ? at_ns - seen_ns : 0;
    all_ns += at_ns - seen_ns;
    seen_ns = at_ns;
    return all_ns > 1'000'000'000 && 4 * had_ns > all_ns;
  };
  EXPECT_TRUE(soon(has_half)) << 100 * had_ns / all_ns << " %";
}

TEST_F(Arbitrated, AStoppedProcessIsNotWaitedFor) {
  const Tenant &a = tenant("a"), &b = tenant("b");
  a.want();
  b.want();
  const auto start = std::chrono::steady_clock::now();
  // A does nothing more; B works on and on.
  const auto keep_on = [&] {
    b.work(1'000'000);
    return a.gate() == Gate::shut && b.gate() == Gate::open && std::chrono::steady_clock::now() - start > 150ms;
  };
  ASSERT_TRUE(soon(keep_on));
  int lost = 0;
  for (int i = 0; i < 200; ++i) {
    b.work(1'000'000);
    lost += b.gate() != Gate::open;
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(lost, 0);
}

TEST_F(Arbitrated, PolicyOffOpensEveryGateAndAnotherShutsThem) {
  const Tenant &a = tenant("a"), &b = tenant("b");
  a.work(3'600'000'000'000);
  a.ring();
  ASSERT_TRUE(soon([&] { return b.gate() == Gate::shut; }));
  arbitration_->set_policy(0, schedule::Policy::off);
  EXPECT_TRUE(soon([&] { return a.gate() == Gate::open && b.gate() == Gate::open; }));
  EXPECT_EQ(b.pages.policy->devices[0].arbitrated.load(), 0u);
  arbitration_->set_policy(0, schedule::Policy::fair);
  a.work(3'600'000'000'000);
  a.ring();
  EXPECT_TRUE(soon([&] { return b.gate() == Gate::shut; }));
  EXPECT_EQ(b.pages.policy->devices[0].arbitrated.load(), 1u);
}

TEST_F(Arbitrated, AnOrderlyEndOpensAllGatesAndADeathNone) {
  const Tenant &a = tenant("a"), &b = tenant("b");
  a.work(3'600'000'000'000);
  a.ring();
  ASSERT_TRUE(soon([&] { return a.gate() == Gate::open && b.gate() == Gate::shut; }));
  arbitration_->stop();
  EXPECT_EQ(b.gate(), Gate::open);
}

TEST_F(Arbitrated, ANewArbiterContinuesWithTheVirtualTimesItFinds) {
  Tenant &a = tenant("a"), &b = tenant("b");
  b.want();  // time that a share has alone is not charged
  b.ring();
  ASSERT_TRUE(soon([&] { return b.gate() == Gate::open && a.gate() == Gate::shut; }));
  a.pages.usage->compute[0].held_ns.fetch_add(500'000'000);
  a.work(3'600'000'000'000);
  a.ring();
  ASSERT_TRUE(soon([&] { return a.pages.policy->devices[0].virtual_time_ns.load() >= 500'000; }));
  arbitration_.reset();
  const std::uint64_t beats = b.beats();
  a.want();
  b.want();
  start();
  EXPECT_GT(b.beats(), beats);
  EXPECT_GE(a.pages.policy->devices[0].virtual_time_ns.load(), 500'000);
  // B has had nothing: the first turn is its. Both report pulses: without one for 50 ms a process counts as stopped.
  EXPECT_TRUE(soon([&] {
    a.want();
    b.want();
    return b.gate() == Gate::open && a.gate() != Gate::open;
  }));
  EXPECT_LT(a.pages.policy->devices[0].virtual_time_ns.load(), 8'000'000) << "what it held before is charged twice";
}

TEST_F(Arbitrated, APageSaysHowFarALongKernelPutAShareBehind) {
  const Tenant &a = tenant("a"), &b = tenant("b");
  a.pages.usage->compute[0].kernel_ns = 1'000'000'000;
  EXPECT_TRUE(soon([&] {
    a.work(3'600'000'000'000);
    a.ring();
    b.want();
    return b.pages.policy->behind_ms[0].load() > 0;
  }));
  EXPECT_EQ(ledger::behind_ms(59'999'999), 50u);
  EXPECT_EQ(ledger::behind_ms(3'600'000'000'000), 60'000u);
}

// Virtual time shows how exact this is (tests/exactness); this shows that it works with the pages' own marks.
TEST_F(Arbitrated, AnIdleTurnIsChargedToTheShareThatHeldIt) {
  const Tenant &a = tenant("a"), &b = tenant("b");
  EXPECT_TRUE(soon([&] {
    a.work(3'600'000'000'000);
    a.ring();
    b.want();
    return a.pages.policy->devices[0].virtual_time_ns.load() > 100'000;
  }));
  EXPECT_EQ(a.pages.usage->compute[0].held_ns.load(), 0u);
}

TEST_F(Arbitrated, AShareAtItsCeilingKeepsNoOtherOut) {
  const Tenant &a = tenant("a"), &b = tenant("b");
  ledger::DeviceGrant limited = ledger::grant_of(*a.pages.policy).devices[0];
  limited.compute_ceiling_ppm = 250'000;
  ASSERT_FALSE(ledger::set_limits(*a.pages.writable_policy, 0, limited));
  a.pages.usage->compute[0].paid_until_ns = now_ns() + 3'600'000'000'000;
  const auto both_go_on = [&] {
    a.want();
    b.work(3'600'000'000'000);
    b.ring();
  };
  ASSERT_TRUE(soon([&] {
    both_go_on();
    return b.gate() == Gate::open;
  }));
  for (int look = 0; look < 100; ++look) {
    both_go_on();
    std::this_thread::sleep_for(1ms);
    ASSERT_TRUE(b.gate() != Gate::queued && b.gate() != Gate::shut) << look;
  }
}

TEST_F(Arbitrated, TimeHeldBeforeAShareWasSeenIsNotCharged) {
  Tenant &a = tenant("a"), &b = tenant("b");
  const auto virtual_ns = [&] { return a.pages.policy->devices[0].virtual_time_ns.load(); };
  arbitration_.reset();
  a.pages.usage->compute[0].held_ns = 5'000'000'000;
  start();
  b.want();  // time that a share has alone is not charged
  b.ring();
  ASSERT_TRUE(soon([&] { return b.gate() == Gate::open && a.gate() == Gate::shut; }));
  a.pages.usage->compute[0].held_ns = 5'100'000'000;
  a.ring();
  ASSERT_TRUE(soon([&] { return virtual_ns() != 0; }));
  EXPECT_EQ(virtual_ns(), 1'000'000);
}

TEST_F(Arbitrated, EndlessRingsCostLittleAndDelayNoOtherShare) {
  const Tenant &a = tenant("a"), &b = tenant("b");
  for (const char what : {'t', 'm', 'r', 'x'}) {
    const auto before = arbitration_->figures();
    const auto start = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - start < 500ms)
      (void)::send(a.bell.get(), &what, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    const auto took = std::chrono::steady_clock::now() - start;
    const auto after = arbitration_->figures();
    // One look for the rings that are heard, one when the bell is unmuted; the full scans, and what was saved up.
    EXPECT_LE(after.decisions.count - before.decisions.count, static_cast<std::uint64_t>(took / 1ms) * 2 + 150) << what;
    EXPECT_LE(after.rings - before.rings, static_cast<std::uint64_t>(took / 1ms + 50) * 16) << what;
    EXPECT_GT(after.rings, before.rings) << what;
  }
  b.work(3'600'000'000'000);
  b.ring();
  EXPECT_TRUE(soon([&] { return b.gate() == Gate::open; }));
}

TEST_F(Arbitrated, EachOf2000RingsASecondIsHeardAtOnce) {
  const Tenant& a = tenant("a");
  const auto before = arbitration_->figures();
  for (int i = 0; i < 400; ++i) {
    a.ring();
    std::this_thread::sleep_for(500us);  // relative: late rings do not come in a burst
  }
  ASSERT_TRUE(soon([&] { return arbitration_->figures().rings - before.rings == 400; }));
  EXPECT_EQ(arbitration_->figures().unheard_rings, before.unheard_rings);
}

TEST_F(Arbitrated, AShareWithADeadDoorbellStillGetsTurns) {
  const Tenant &a = tenant("a"), &b = tenant("b");
  a.work(3'600'000'000'000);
  a.ring();
  ASSERT_TRUE(soon([&] { return a.gate() == Gate::open; }));
  ::shutdown(b.bell.get(), SHUT_RDWR);
  std::this_thread::sleep_for(20ms);
  b.want();
  EXPECT_TRUE(soon([&] { return b.gate() == Gate::open; }));
}

TEST_F(Arbitrated, AShareWithADeadDoorbellIsNamedAndGetsAnother) {
  Tenant& a = tenant("a");
  tenant("b");
  EXPECT_TRUE(arbitration_->doorbell_closed().empty());
  ::shutdown(a.bell.get(), SHUT_RDWR);
  ASSERT_TRUE(soon([&] { return arbitration_->doorbell_closed() == std::vector<std::string>{"a"}; }));
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  a.bell = UniqueFd(ends[1]);
  ASSERT_TRUE(arbitration_->listen_by("a", UniqueFd(ends[0])));
  EXPECT_TRUE(arbitration_->doorbell_closed().empty());
  const auto before = arbitration_->figures().rings;
  a.ring();
  EXPECT_TRUE(soon([&] { return arbitration_->figures().rings == before + 1; }));
  ASSERT_TRUE(arbitration_->listen_by("of no share", UniqueFd()));
}

// In a message that is read, and left in a bell that is removed. Closing them here would block for an hour.
TEST_F(Arbitrated, AShareThatSendsDescriptorsBlocksNoOther) {
  const Tenant &a = tenant("a"), &b = tenant("b"), &c = tenant("c");
  LingeringConnection heard, unheard;
  ASSERT_TRUE(heard.send_along(a.bell.get(), "t"));
  b.want();
  ASSERT_TRUE(soon([&] { return b.gate() == Gate::open; }));
  for (int i = 0; i < 64; ++i) (void)::send(c.bell.get(), "xx", 2, MSG_DONTWAIT | MSG_NOSIGNAL);
  ASSERT_TRUE(unheard.send_along(c.bell.get(), "t"));
  arbitration_->remove("a");
  arbitration_->remove("c");
  b.rest();
  b.want();
  EXPECT_TRUE(soon([&] { return b.gate() == Gate::open; }));
}

TEST_F(Arbitrated, ARemovedHolderLeavesTheGpuToOthers) {
  const Tenant &a = tenant("a"), &b = tenant("b");
  a.work(3'600'000'000'000);
  a.ring();
  ASSERT_TRUE(soon([&] { return a.gate() == Gate::open; }));
  arbitration_->remove("a");
  b.want();
  EXPECT_TRUE(soon([&] { return b.gate() == Gate::open; }));
}

TEST_F(Arbitrated, ChangedWeightsApplyFromTheNextDecision) {
  const Tenant &a = tenant("a"), &b = tenant("b");
  ledger::DeviceGrant changed = ledger::grant_of(*a.pages.policy).devices[0];
  changed.weight = 1000;
  ASSERT_FALSE(ledger::set_limits(*a.pages.writable_policy, 0, changed));
  const std::int64_t before = a.pages.policy->devices[0].virtual_time_ns.load();
  b.want();  // time that a share has alone is not charged
  b.ring();
  ASSERT_TRUE(soon([&] { return b.gate() == Gate::open && a.gate() == Gate::shut; }));
  a.pages.usage->compute[0].held_ns.fetch_add(100'000'000);
  a.ring();
  // The old weight would make it ten times as much.
  EXPECT_TRUE(soon([&] { return a.pages.policy->devices[0].virtual_time_ns.load() >= before + 100'000; }));
  EXPECT_LT(a.pages.policy->devices[0].virtual_time_ns.load(), before + 300'000);
}

// Idle shares are not looked at each time. Their rings announce their work, or else the full scan finds it.
TEST_F(Arbitrated, ASleepingShareIsHeardAtItsRing) {
  const Tenant &a = tenant("a"), &b = tenant("b"), &sleeper = tenant("sleeper");
  const auto others_work_until = [&](auto&& holds) {
    return soon([&] {
      for (const Tenant* each : {&a, &b}) each->gate() == Gate::open ? each->work(3'000'000) : each->want();
      return holds();
    });
  };
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(others_work_until([&] { return std::chrono::steady_clock::now() - start > 300ms; }));
  ASSERT_EQ(sleeper.gate(), Gate::shut);
  const std::int64_t before = sleeper.pages.policy->devices[0].virtual_time_ns.load();
  sleeper.pages.usage->compute[0].held_ns.fetch_add(50'000'000);
  EXPECT_TRUE(
      others_work_until([&] { return sleeper.pages.policy->devices[0].virtual_time_ns.load() >= before + 500'000; }));
  sleeper.want();
  EXPECT_TRUE(others_work_until([&] { return sleeper.gate() == Gate::open; }));
}

// A process that went on without a heartbeat, and has no bell, waits for its turns again once there is one.
TEST_F(Arbitrated, WorkBehindAShutGateReadsTheHeartbeat) {
  const Tenant &a = tenant("a"), &deserter = tenant("deserter");
  a.work(3'600'000'000'000);
  a.ring();
  ASSERT_TRUE(soon([&] { return a.gate() == Gate::open && deserter.gate() == Gate::shut; }));
  const std::uint64_t beats = deserter.beats();
  EXPECT_TRUE(soon([&] {
    deserter.work(10'000'000);
    arbitration_->wake();
    return deserter.beats() > beats;
  }));
}

TEST(Policies, HaveThreeNames) {
  for (const char* word : {"fair", "priority", "off"}) EXPECT_EQ(policy_word(*parse_policy(word)), word);
  EXPECT_EQ(parse_policy("greedy").error().hint, "accepted: fair, priority, off");
}

TEST_F(Arbitrated, ItsThreadIsNotPreemptedByTheTenantsItWakes) {
  bool allowed = false;
  std::thread([&allowed] {
    allowed = ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), -10) == 0;
  }).join();
  if (!allowed) GTEST_SKIP() << "this user may not raise a priority";
  if (!std::filesystem::exists("/proc/self/task")) GTEST_SKIP() << "nothing is mounted at /proc";
  const auto is_before = [] {
    std::error_code gone;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", gone)) {
      std::string name;
      std::getline(std::ifstream(task.path() / "comm"), name);
      if (name == "arbiter")
        return ::getpriority(PRIO_PROCESS, static_cast<id_t>(std::stoi(task.path().filename()))) == -10;
    }
    return false;
  };
  EXPECT_TRUE(soon(is_before));
}

TEST_F(Arbitrated, WakesWhenAskedAndReportsItsSilenceOtherwise) {
  EXPECT_EQ(arbitration_->silence_ns(), 0);
  const std::uint64_t before = arbitration_->figures().decisions.count;
  arbitration_->wake();
  EXPECT_TRUE(
      soon([&] { return arbitration_->figures().decisions.count > before && arbitration_->silence_ns() == 0; }));
  arbitration_->stop();
  arbitration_->wake();
  EXPECT_TRUE(soon([&] { return arbitration_->silence_ns() > 10'000'000; }));
  arbitration_->wake();
  EXPECT_GT(arbitration_->silence_ns(), 10'000'000) << "asking again is no answer";
}

}  // namespace
}  // namespace headgate::node
