#include "observe/join.hpp"

#include <gtest/gtest.h>

namespace headgate::observe {
namespace {

constexpr std::uint64_t kGiB = 1ull << 30, kSecond = 1'000'000'000;

JoinInput input() {
  JoinInput in;
  in.driver.driver_version = "580.95";
  snapshot::Gpu gpu;
  gpu.uuid = "GPU-a";
  gpu.memory_total_bytes = 100 * kGiB;
  gpu.memory_reserved_bytes = 1 * kGiB;
  gpu.memory_used_bytes = 40 * kGiB;
  gpu.memory_free_bytes = 59 * kGiB;
  in.driver.gpus = {gpu};
  in.driver.processes = {{.uuid = "GPU-a", .pid = 10, .bytes = 30 * kGiB, .busy_ratio = 0.5},
                         {.uuid = "GPU-a", .pid = 99, .bytes = 8 * kGiB, .busy_ratio = {}}};
  LedgerSnapshot ledger;
  ledger.share.name = "alice";
  ledger.share.level = "hook";
  ledger.share.devices.resize(1);
  ledger.share.devices[0].uuid = "GPU-a";
  ledger.share.devices[0].memory_limit_bytes = 50 * kGiB;
  ledger.share.devices[0].memory_used_bytes = 30 * kGiB;
  ledger.share.devices[0].compute_guarantee_ratio = 0.25;
  ledger.share.devices[0].held_ns = kSecond;
  ledger.share.processes = 1;
  ledger.seats = {
      {.identity = {.pid = 1, .pidns_inode = 7, .start_time = 3}, .command = "train", .bytes = {30 * kGiB}}};
  in.ledgers = {ledger};
  in.host_pids = {{10}};
  in.facts[99] = {.uid = 5, .user = "carol", .command = "rogue", .where = "host"};
  in.taken_ns = 5 * kSecond;
  return in;
}

RecentSnapshots after(const snapshot::Snapshot& before) {
  RecentSnapshots recent;
  recent.add(std::make_shared<snapshot::Snapshot>(before));
  return recent;
}

TEST(Join, EveryByteOfTheCardIsAssigned) {
  const auto snapshot = join(input(), {});
  const auto& gpu = snapshot.gpus.at(0);
  EXPECT_EQ(gpu.memory_committed_bytes, 50 * kGiB);
  EXPECT_EQ(gpu.memory_shares_bytes, 30 * kGiB);
  EXPECT_EQ(gpu.memory_unattributed_bytes, 10 * kGiB);
  EXPECT_EQ(gpu.memory_shares_bytes + gpu.memory_reserved_bytes + gpu.memory_unattributed_bytes + gpu.memory_free_bytes,
            gpu.memory_total_bytes);
  EXPECT_DOUBLE_EQ(gpu.compute_committed_ratio, 0.25);
}

TEST(Join, TheDriversLimitOfAllItsProcessesRaisesASharesLevel) {
  JoinInput in = input();
  in.fences = {{.target = {.share = "alice", .uuid = "GPU-a", .cgroup = "/x", .bytes = 50 * kGiB, .pids = {10}},
                .holds = true,
                .limit_bytes = 50 * kGiB,
                .used_bytes = 31 * kGiB}};
  auto snapshot = join(in, {});
  EXPECT_EQ(snapshot.shares.at(0).level, "hook+driver");
  EXPECT_EQ(snapshot.node.level, "hook+driver");
  EXPECT_EQ(snapshot.processes.at(0).level, "hook+driver");
  EXPECT_EQ(snapshot.shares.at(0).devices.at(0).driver_limit_bytes, 50 * kGiB);
  EXPECT_EQ(snapshot.shares.at(0).devices.at(0).driver_used_bytes, 31 * kGiB);

  in.fences[0].target.pids = {};  // one that remains is in another cgroup
  EXPECT_EQ(join(in, {}).shares.at(0).level, "hook");

  in.fences[0] = {.target = in.fences[0].target, .problem = "is refused: headgated is not root"};
  in.fences[0].target.pids = {10};
  snapshot = join(in, {});
  EXPECT_EQ(snapshot.shares.at(0).level, "hook");
  EXPECT_EQ(snapshot.shares.at(0).driver_problem, "is refused: headgated is not root");
  EXPECT_FALSE(snapshot.shares.at(0).devices.at(0).driver_limit_bytes);
}

TEST(Join, NoFigureOfAPageExceedsItsCard) {
  for (const bool damaged : {false, true}) {
    JoinInput in = input();
    auto& device = in.ledgers[0].share.devices[0];
    if (damaged) in.ledgers[0].share.problem = "damaged";
    device.memory_limit_bytes = std::uint64_t{1} << 50;
    device.memory_used_bytes = device.memory_peak_bytes = device.memory_residual_bytes = ~std::uint64_t{0};
    device.memory_draining_bytes = device.memory_frozen_bytes = std::uint64_t{1} << 50;
    in.ledgers[0].seats[0].bytes[0] = std::uint64_t{1} << 51;
    const auto snapshot = join(in, {});
    const std::uint64_t card = snapshot.gpus.at(0).memory_total_bytes;
    const auto& shown = snapshot.shares.at(0).devices.at(0);
    for (const std::uint64_t bytes : {shown.memory_used_bytes, shown.memory_peak_bytes, shown.memory_residual_bytes,
                                      shown.memory_draining_bytes, shown.memory_frozen_bytes})
      EXPECT_LE(bytes, card);
    EXPECT_LE(snapshot.processes.at(0).devices.at(0).ledger_bytes, card);
    if (!damaged) continue;
    EXPECT_LE(*shown.memory_limit_bytes, card);
    EXPECT_EQ(snapshot.gpus.at(0).memory_committed_bytes, 0u) << "a damaged page promises nothing";
  }
}

// A run without the daemon that has ended has given its part back; `headgate free` counts the same.
TEST(Join, AShareOfAnEndedRunPromisesNothing) {
  JoinInput in = input();
  in.ledgers[0].share.processes = 0;
  in.ledgers[0].seats.clear();
  in.host_pids = {{}};
  in.ledgers[0].share.devices[0].memory_used_bytes = 0;
  in.ledgers[0].attended = false;
  EXPECT_EQ(join(in, {}).gpus.at(0).memory_committed_bytes, 0u);
  in.ledgers[0].share.created = true;
  EXPECT_EQ(join(in, {}).gpus.at(0).memory_committed_bytes, 50 * kGiB) << "a daemon's stays promised";
}

TEST(Join, AbsurdPageFiguresDoNotExceedTheCard) {
  for (const std::uint64_t said : {std::uint64_t{1} << 50, ~std::uint64_t{0}}) {
    JoinInput in = input();
    in.ledgers.push_back(in.ledgers[0]);
    in.ledgers[1].share.name = "liar";
    in.ledgers[1].share.devices[0].memory_used_bytes = said;
    EXPECT_EQ(join(in, {}).gpus.at(0).memory_shares_bytes, 100 * kGiB);
    // Once it is reported as damaged it hides nothing of what others use.
    in.ledgers[1].share.problem = "damaged";
    EXPECT_EQ(join(in, {}).gpus.at(0).memory_unattributed_bytes, 10 * kGiB);
  }
}

TEST(Join, AContainersProcessIsOneRowWithItsHostPid) {
  const auto snapshot = join(input(), {});
  ASSERT_EQ(snapshot.processes.size(), 2u);
  const auto& tenant = snapshot.processes[0];
  EXPECT_EQ(tenant.pid, 10u);
  EXPECT_EQ(tenant.pid_in_share, 1u);
  EXPECT_EQ(tenant.share, "alice");
  EXPECT_EQ(tenant.command, "train");
  ASSERT_EQ(tenant.devices.size(), 1u);
  EXPECT_EQ(tenant.devices[0].driver_bytes, 30 * kGiB);
  EXPECT_EQ(tenant.devices[0].ledger_bytes, 30 * kGiB);
  const auto& outsider = snapshot.processes[1];
  EXPECT_EQ(outsider.share, "");
  EXPECT_EQ(outsider.level, "observe");
  EXPECT_EQ(outsider.user, "carol");
  EXPECT_EQ(snapshot.node.unattended_processes, 1u);
}

TEST(Join, RatesAndIdleTimeUseThePreviousSnapshot) {
  const auto first = join(input(), {});
  EXPECT_FALSE(first.shares[0].devices[0].held_ratio);
  auto later = input();
  later.taken_ns += 2 * kSecond;
  later.ledgers[0].share.devices[0].held_ns += kSecond / 2;
  const auto second = join(later, after(first));
  EXPECT_DOUBLE_EQ(*second.shares[0].devices[0].held_ratio, 0.25);
  EXPECT_EQ(second.shares[0].idle_ns, 0u);
  EXPECT_EQ(second.shares[0].state, "ok");
  later.taken_ns += 3 * kSecond;
  const auto third = join(later, after(second));
  EXPECT_EQ(third.shares[0].idle_ns, 3 * kSecond);
  EXPECT_EQ(third.shares[0].state, "idle");
}

// Two readings may tell what was held until moments that are not as far apart as they are.
TEST(Join, RatesCoverTheTimeThatTheAccountsTellOf) {
  auto first = input();
  first.ledgers[0].share.devices[0].held_age_ns = 8'000'000;
  auto later = first;
  later.taken_ns += kSecond;
  later.ledgers[0].share.devices[0].held_ns += 495'000'000;
  later.ledgers[0].share.devices[0].held_age_ns = 18'000'000;
  EXPECT_DOUBLE_EQ(*join(later, after(join(first, {}))).shares[0].devices[0].held_ratio, 0.5);
  // An age that a tenant made up is no reason for a rate above 1.
  later.ledgers[0].share.devices[0].held_age_ns = 5 * kSecond;
  EXPECT_DOUBLE_EQ(*join(later, after(join(first, {}))).shares[0].devices[0].held_ratio, 1);
}

// Commands may request a snapshot each tenth of a second, and after the end of a process sooner.
TEST(Join, RatesCoverASecondAtAnyLookRate) {
  auto in = input();
  RecentSnapshots recent;
  auto& device = in.ledgers[0].share.devices[0];
  std::uint64_t at_ms = 0;
  const auto look = [&](std::uint64_t ms) {
    // Half of the time, in kernels of 50 ms that are charged as they end.
    for (; ms > 0; --ms) {
      if (++at_ms % 100 == 0) device.held_ns += kSecond / 20, device.throttled_ns += kSecond / 20;
    }
    in.taken_ns = 5 * kSecond + at_ms * 1'000'000;
    recent.add(std::make_shared<snapshot::Snapshot>(join(in, recent)));
    return recent.last()->shares.at(0);
  };
  look(0), look(1000);
  for (const std::uint64_t ms : {20, 20, 100, 7, 20, 100, 20, 300, 100, 20, 20, 20, 100, 1000, 20, 100}) {
    const auto share = look(ms);
    EXPECT_NEAR(share.devices[0].held_ratio.value(), 0.5, 0.08) << at_ms;
    EXPECT_EQ(share.state, "ok") << at_ms;
    EXPECT_EQ(share.idle_ns, 0u) << at_ms;
  }
}

TEST(Join, IdleTimeStartsAtTheEndOfWork) {
  auto in = input();
  RecentSnapshots recent;
  const auto look = [&](std::uint64_t ms) {
    in.taken_ns += ms * 1'000'000;
    recent.add(std::make_shared<snapshot::Snapshot>(join(in, recent)));
    return recent.last()->shares.at(0);
  };
  look(0);
  in.ledgers[0].share.devices[0].held_ns += kSecond / 2;
  EXPECT_EQ(look(1000).state, "ok");
  for (int i = 0; i < 9; ++i) EXPECT_EQ(look(100).state, i < 5 ? "ok" : "idle") << i;
  EXPECT_NEAR(static_cast<double>(recent.last()->shares[0].idle_ns), 0.9e9, 1e8);
  EXPECT_NEAR(static_cast<double>(look(500).idle_ns), 1.4e9, 1e8);
  EXPECT_EQ(recent.last()->shares[0].devices[0].held_ratio, 0);
}

// Policy off and no ceiling: its account does not move, whatever it does.
TEST(Join, AnUnmeasuredShareIsIdleOnlyByTheDriver) {
  auto in = input();
  in.ledgers[0].share.devices[0].metered = false;
  auto before = join(in, {});
  const auto next = [&] {
    in.taken_ns += kSecond;
    before = join(in, after(before));
    return before.shares.at(0);
  };
  in.driver.processes[0].at_work = true;
  for (int i = 0; i < 3; ++i) {
    const auto share = next();
    EXPECT_FALSE(share.devices[0].held_ratio);
    EXPECT_EQ(share.state, "ok");
    EXPECT_EQ(share.idle_ns, 0u);
  }
  in.driver.processes[0].at_work = false;
  EXPECT_EQ(next().state, "idle") << "the driver tells, and it did nothing";
  EXPECT_EQ(next().idle_ns, 2 * kSecond);
  in.driver.processes[0].busy_ratio.reset();
  EXPECT_EQ(next().state, "ok") << "the driver reports no process as busy or idle";
  EXPECT_EQ(before.shares.at(0).idle_ns, 2 * kSecond) << "it may have worked or not";
  in.driver.gpus[0].busy_ratio = 0;
  EXPECT_EQ(next().state, "idle") << "no process works on this GPU";
  in.node.nvml_released = true;
  EXPECT_EQ(next().state, "ok") << "so it was when it was last asked";
}

TEST(Join, UnmeteredWorkCountsIfTheDriverSeesIt) {
  auto in = input();
  const auto first = join(in, {});
  in.taken_ns += kSecond;
  in.driver.processes[0].at_work = true;
  EXPECT_EQ(join(in, after(first)).shares[0].state, "ok") << "video";
  EXPECT_EQ(join(in, after(first)).shares[0].idle_ns, 0u);
  in.driver.processes[0].at_work = false;
  in.ledgers[0].share.devices[0].copy_ns += kSecond / 2;
  EXPECT_EQ(join(in, after(first)).shares[0].idle_ns, 0u) << "copies";
}

TEST(Join, AStateIsTheWorstThatApplies) {
  JoinInput in = input();
  EXPECT_EQ(join(in, {}).shares.at(0).state, "ok");
  const RecentSnapshots before = after(join(in, {}));
  const auto state = [&] { return join(in, before).shares.at(0).state; };
  in.taken_ns += kSecond;
  in.ledgers[0].share.devices[0].throttled_ns += kSecond / 10;
  auto& device = in.ledgers[0].share.devices[0];
  device.held_ns += kSecond / 2;
  device.waited_work_ns = kSecond / 10;
  EXPECT_EQ(state(), "ok") << "a share that waits behind its own work waits for no other";
  device.waited_turn_ns = kSecond / 5;
  EXPECT_EQ(state(), "takes turns");
  EXPECT_EQ(join(in, before).shares.at(0).devices.at(0).waits_for, "turn");
  device.compute_ceiling_ratio = 0.5;
  device.waited_ceiling_ns = kSecond;
  EXPECT_EQ(state(), "throttled");
  in.ledgers[0].share.devices[0].memory_used_bytes = 50 * kGiB;
  EXPECT_EQ(state(), "full");
  in.ledgers[0].share.state = "paused";
  EXPECT_EQ(state(), "paused");
  in.ledgers[0].share.state.clear();
  in.ledgers[0].seats.clear();
  in.ledgers[0].share.processes = 0;
  in.ledgers[0].attended = true;
  EXPECT_EQ(state(), "freeing") << "the dead have memory yet";
  in.ledgers[0].share.devices[0].memory_used_bytes = 0;
  EXPECT_EQ(state(), "idle");
  in.ledgers[0].attended = false;
  EXPECT_EQ(state(), "empty");
}

// A starved or paused program does no work, although it has some.
TEST(Join, AShareWithWaitingLaunchesIsNotIdle) {
  auto in = input();
  auto before = join(in, {});
  const auto next = [&](std::uint64_t waited_ns) {
    in.taken_ns += kSecond;
    in.ledgers[0].share.devices[0].throttled_ns += waited_ns;
    in.ledgers[0].share.devices[0].waited_turn_ns += waited_ns;
    before = join(in, after(before));
    return before.shares.at(0);
  };
  EXPECT_EQ(next(0).state, "idle");
  EXPECT_EQ(next(kSecond).state, "takes turns");
  EXPECT_EQ(before.shares[0].idle_ns, 0u);
  EXPECT_DOUBLE_EQ(*before.shares[0].devices[0].throttled_ratio, 1);
  EXPECT_DOUBLE_EQ(*next(5 * kSecond).devices[0].throttled_ratio, 1)
      << "it was stopped while it waited, or has threads";
  in.ledgers[0].share.state = "paused";
  EXPECT_EQ(next(kSecond).idle_ns, 0u);
  EXPECT_EQ(next(0).idle_ns, kSecond);
}

TEST(Join, AShareWithAWaitingAllocationIsFull) {
  auto in = input();
  const auto before = join(in, {});
  in.taken_ns += kSecond;
  EXPECT_EQ(join(in, after(before)).shares[0].state, "idle");
  in.ledgers[0].waits_for_memory = true;
  EXPECT_EQ(join(in, after(before)).shares[0].state, "full");
  EXPECT_EQ(join(in, after(before)).shares[0].idle_ns, 0u);
  in.ledgers[0].share.processes = 0;
  EXPECT_EQ(join(in, after(before)).shares[0].state, "freeing") << "the process that waited has gone";
}

TEST(Join, AbsurdPageFiguresHoldAtMostTheGpu) {
  const auto first = join(input(), {});
  auto later = input();
  later.taken_ns += kSecond;
  later.ledgers[0].share.devices[0].held_ns += 1'000 * kSecond;
  EXPECT_EQ(join(later, after(first)).shares[0].devices[0].held_ratio, 1.0);
}

TEST(Join, FiguresThatWentBackMakeNoNegativeRate) {
  const auto first = join(input(), {});
  auto later = input();
  later.taken_ns += kSecond;
  later.ledgers[0].share.devices[0].held_ns = 5;
  EXPECT_FALSE(join(later, after(first)).shares[0].devices[0].held_ratio);
}

TEST(Join, ARecreatedShareHasNoOldRatesOrIdleTime) {
  auto idle = join(input(), {});
  idle.shares[0].idle_ns = 3600 * kSecond;
  auto later = input();
  later.taken_ns += kSecond;
  later.driver.processes.clear();
  EXPECT_EQ(join(later, after(idle)).shares[0].idle_ns, 3601 * kSecond) << "the same one";
  later.ledgers[0].share.generation = 9;
  EXPECT_EQ(join(later, after(idle)).shares[0].idle_ns, 0u);
  later.ledgers[0].share.devices[0].held_ns += kSecond;
  EXPECT_FALSE(join(later, after(idle)).shares[0].devices[0].held_ratio);
}

TEST(Join, AProcessWithoutAHostPidIsShown) {
  auto in = input();
  in.host_pids = {{0}};
  const auto snapshot = join(in, {});
  ASSERT_EQ(snapshot.processes.size(), 3u);
  EXPECT_EQ(snapshot.processes[0].pid, 0u);
  EXPECT_EQ(snapshot.processes[0].pid_in_share, 1u);
}

}  // namespace
}  // namespace headgate::observe
