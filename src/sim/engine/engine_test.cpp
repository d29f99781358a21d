#include "sim/engine.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace headgate::sim {
namespace {

constexpr std::uint64_t kUs = 1'000, kMs = 1'000'000, kStart = 10'000'000'000;

struct World {
  World() : World(*find_profile("h200")) {}
  explicit World(const Profile& profile) : state(make_state(profile, kStart)), engine(*state) {}

  std::uint32_t context(std::int32_t pid, std::uint32_t device = 0) {
    const std::uint32_t process =
        engine.open_process({.pid = pid, .pid_namespace = 0, .start_time = 0, .comm = "test"});
    return engine.create_context(process, device);
  }
  std::uint64_t launch(std::uint32_t stream, std::uint64_t duration_ns, std::uint64_t at_ns, std::uint32_t sms = 132) {
    Command command;
    command.submit_ns = at_ns;
    command.order = ++order;
    command.amount = duration_ns;
    command.sms = sms;
    return push(*state, stream, command);
  }
  void record(std::uint32_t event, std::uint32_t stream, std::uint64_t at_ns) {
    Command command = event_record(*state, event, stream, at_ns);
    command.order = ++order;
    ASSERT_NE(push(*state, stream, command), 0u);
  }
  const Account& account_of(std::uint32_t context) { return state->accounts[state->contexts[context].account]; }

  StatePointer state;
  Engine engine;
  std::uint64_t order = 0;
};

std::uint64_t submit_of(const World& world) { return world.state->profile.submit_ns; }

TEST(Engine, AKernelEndsAfterItsDurationForAnyObserver) {
  World world;
  const auto context = world.context(1);
  const auto stream = world.engine.create_stream(context, StreamKind::blocking);
  world.launch(stream, 100 * kUs, kStart);
  world.engine.advance(kStart + submit_of(world) + 100 * kUs - 1);
  EXPECT_EQ(world.engine.completed(stream), 0u);
  world.engine.advance(kStart + submit_of(world) + 100 * kUs);
  EXPECT_EQ(world.engine.completed(stream), 1u);
  EXPECT_EQ(world.account_of(context).held_ns, 100 * kUs);
  EXPECT_EQ(world.account_of(context).sm_ns_sms, 132 * 100 * kUs);
}

TEST(Engine, LookingMoreOftenChangesNothing) {
  World seldom, often;
  std::uint32_t streams[2][4];
  for (World* world : {&seldom, &often}) {
    for (int c = 0; c < 4; ++c) {
      const auto context = world->context(c + 1);
      auto& stream = streams[world == &often][c];
      stream = world->engine.create_stream(context, StreamKind::blocking);
      for (int k = 0; k < 200; ++k)
        ASSERT_NE(world->launch(stream, (20 + 37 * c) * kUs, kStart + k * 90 * kUs + c), 0u);
    }
  }
  for (std::uint64_t t = 0; t <= 60 * kMs; t += 7'919) often.engine.advance(kStart + t);
  often.engine.advance(kStart + 60 * kMs);
  seldom.engine.advance(kStart + 60 * kMs);
  for (std::uint32_t a = 0; a < 4; ++a) {
    EXPECT_EQ(seldom.state->accounts[a].held_ns, often.state->accounts[a].held_ns);
    EXPECT_EQ(seldom.state->accounts[a].kernels, often.state->accounts[a].kernels);
    EXPECT_EQ(seldom.state->streams[streams[0][a]].free_ns, often.state->streams[streams[1][a]].free_ns);
  }
}

TEST(Engine, AnEventOnAnIdleStreamFiresBeforeALateKernel) {
  World world;
  const auto context = world.context(1);
  const auto stream = world.engine.create_stream(context, StreamKind::blocking);
  const auto start = world.engine.create_event(0, 0), end = world.engine.create_event(0, 0);
  world.record(start, stream, kStart);
  world.launch(stream, 3 * kUs, kStart + 40 * kUs);
  world.record(end, stream, kStart + 41 * kUs);
  world.engine.advance(kStart + kMs);
  const auto s = read_event(*world.state, start), e = read_event(*world.state, end);
  ASSERT_TRUE(s.complete && e.complete);
  EXPECT_EQ(s.node_ns, kStart + submit_of(world));
  EXPECT_EQ(e.node_ns, kStart + submit_of(world) + 43 * kUs);
}

TEST(Engine, EventTimesHaveTheGpuClocksOffsetDriftAndStep) {
  World world;
  const Profile& profile = world.state->profile;
  EXPECT_NE(profile.clock_drift_ppb, 0);
  const auto context = world.context(1);
  const auto stream = world.engine.create_stream(context, StreamKind::blocking);
  const auto event = world.engine.create_event(0, 0);
  std::uint64_t last = 0, first = 0;
  for (int i = 0; i < 2; ++i) {
    world.record(event, stream, kStart + i * 4'000 * kMs + 123);
    world.engine.advance(kStart + i * 4'000 * kMs + kMs);
    last = read_event(*world.state, event).gpu_ns;
    EXPECT_EQ(last % profile.event_step_ns, 0u);
    if (i == 0) first = last;
  }
  const double drift = 4e9 * static_cast<double>(profile.clock_drift_ppb) / 1e9;
  EXPECT_NEAR(static_cast<double>(last - first), 4e9 + drift, static_cast<double>(profile.event_step_ns) + 1);
}

TEST(Engine, TwoBusyProcessesGetHalfEach) {
  World world;
  std::uint32_t contexts[2], streams[2];
  for (int i = 0; i < 2; ++i) {
    contexts[i] = world.context(i + 1);
    streams[i] = world.engine.create_stream(contexts[i], StreamKind::blocking);
    for (int k = 0; k < 1000; ++k) ASSERT_NE(world.launch(streams[i], 100 * kUs, kStart), 0u);
  }
  world.engine.advance(kStart + submit_of(world) + 100 * kMs);
  const auto a = world.account_of(contexts[0]).held_ns, b = world.account_of(contexts[1]).held_ns;
  EXPECT_EQ(a + b, 100 * kMs);
  EXPECT_NEAR(static_cast<double>(a), 50e6, 2e6);
}

TEST(Engine, AShortTimeSliceIsHalfAndALongOneTwiceAsLong) {
  for (const auto& [length, slice] :
       {std::pair{0u, 2 * kMs}, {kShortTimeSlice, 1 * kMs}, {2u, 2 * kMs}, {kLongTimeSlice, 4 * kMs}}) {
    World world;
    world.state->nvml[0].time_slice = length;
    std::uint32_t contexts[2];
    for (int i = 0; i < 2; ++i) {
      contexts[i] = world.context(i + 1);
      const auto stream = world.engine.create_stream(contexts[i], StreamKind::blocking);
      for (int k = 0; k < 1000; ++k) ASSERT_NE(world.launch(stream, 100 * kUs, kStart), 0u);
    }
    world.engine.advance(kStart + submit_of(world) + slice);
    EXPECT_EQ(world.account_of(contexts[0]).held_ns, slice) << length;
    EXPECT_EQ(world.account_of(contexts[1]).held_ns, 0u) << length;
    world.engine.advance(kStart + submit_of(world) + 2 * slice);
    EXPECT_EQ(world.account_of(contexts[1]).held_ns, slice) << length;
  }
}

TEST(Engine, AContextSwitchCostsOnlySeveralContexts) {
  Profile profile = *find_profile("h200");
  profile.switch_ns = 100 * kUs;
  World world(profile);
  std::uint32_t contexts[2], streams[2];
  for (int i = 0; i < 2; ++i) {
    contexts[i] = world.context(i + 1);
    streams[i] = world.engine.create_stream(contexts[i], StreamKind::blocking);
    for (int k = 0; k < 1000; ++k) ASSERT_NE(world.launch(streams[i], 100 * kUs, kStart), 0u);
  }
  // Slices of 2 ms and switches of 0.1 ms: 20 of each in 42 ms, minus the switch after the last.
  world.engine.advance(kStart + submit_of(world) + 42 * kMs - 100 * kUs);
  EXPECT_EQ(world.account_of(contexts[0]).held_ns, 20 * kMs);
  EXPECT_EQ(world.account_of(contexts[1]).held_ns, 20 * kMs);
  world.engine.destroy_context(contexts[1]);
  const auto before = world.account_of(contexts[0]).held_ns;
  world.engine.advance(kStart + submit_of(world) + 60 * kMs);
  EXPECT_EQ(world.account_of(contexts[0]).held_ns - before, 18 * kMs)
      << "it has the device alone, and it was not the last";
}

TEST(Engine, AnIdleContextYieldsTheDeviceAtOnce) {
  World world;
  const auto busy = world.context(1), thin = world.context(2);
  const auto busy_stream = world.engine.create_stream(busy, StreamKind::blocking);
  const auto thin_stream = world.engine.create_stream(thin, StreamKind::blocking);
  world.launch(thin_stream, 10 * kUs, kStart);
  world.launch(busy_stream, 10 * kMs, kStart + 1);
  world.engine.advance(kStart + submit_of(world) + 5 * kMs);
  EXPECT_EQ(world.account_of(thin).held_ns, 10 * kUs);
  EXPECT_EQ(world.account_of(busy).held_ns, 5 * kMs - 10 * kUs);
}

TEST(Engine, SmallKernelsOverlapAndHeldTimeIsTheirUnion) {
  World world;
  const auto context = world.context(1);
  for (int i = 0; i < 4; ++i) {
    world.launch(world.engine.create_stream(context, StreamKind::blocking), 1 * kMs, kStart, 33);
  }
  world.engine.advance(kStart + 10 * kMs);
  EXPECT_EQ(world.account_of(context).held_ns, 1 * kMs);
  EXPECT_EQ(world.account_of(context).sm_ns_sms, 132 * kMs);
  EXPECT_EQ(world.account_of(context).kernels, 4u);
}

TEST(Engine, KernelsThatNeedTheWholeCardRunInSequence) {
  World world;
  const auto context = world.context(1);
  for (int i = 0; i < 4; ++i) world.launch(world.engine.create_stream(context, StreamKind::blocking), 1 * kMs, kStart);
  world.engine.advance(kStart + 10 * kMs);
  EXPECT_EQ(world.account_of(context).held_ns, 4 * kMs);
}

TEST(Engine, TheLegacyStreamAndBlockingStreamsWaitForEachOther) {
  World world;
  const auto context = world.context(1);
  const auto blocking = world.engine.create_stream(context, StreamKind::blocking);
  const auto free = world.engine.create_stream(context, StreamKind::non_blocking);
  const auto legacy = world.engine.legacy_stream(context);
  world.launch(blocking, 1 * kMs, kStart, 1);
  world.launch(legacy, 1 * kMs, kStart, 1);
  world.launch(blocking, 1 * kMs, kStart, 1);
  world.launch(free, 1 * kMs, kStart, 1);
  world.engine.advance(kStart + submit_of(world) + 1 * kMs);
  EXPECT_EQ(world.engine.completed(blocking), 1u);
  EXPECT_EQ(world.engine.completed(legacy), 0u);
  EXPECT_EQ(world.engine.completed(free), 1u);
  world.engine.advance(kStart + submit_of(world) + 3 * kMs);
  EXPECT_EQ(world.engine.completed(legacy), 1u);
  EXPECT_EQ(world.engine.completed(blocking), 2u);
  EXPECT_EQ(world.account_of(context).held_ns, 3 * kMs);
}

TEST(Engine, AStreamWaitsForTheRecordBeforeTheWait) {
  World world;
  const auto context = world.context(1);
  const auto first = world.engine.create_stream(context, StreamKind::non_blocking);
  const auto second = world.engine.create_stream(context, StreamKind::non_blocking);
  const auto event = world.engine.create_event(0, 0);
  world.launch(first, 5 * kMs, kStart, 1);
  world.record(event, first, kStart);
  Command wait = event_wait(*world.state, event, kStart);
  wait.order = ++world.order;
  ASSERT_NE(push(*world.state, second, wait), 0u);
  const auto number = world.launch(second, 1 * kMs, kStart, 1);
  world.engine.advance(kStart + submit_of(world));
  EXPECT_EQ(world.engine.earliest_finish_ns(second, number), kStart + submit_of(world) + 6 * kMs);
  world.engine.advance(kStart + submit_of(world) + 6 * kMs - 1);
  EXPECT_EQ(world.engine.completed(second), 1u);
  world.engine.advance(kStart + submit_of(world) + 6 * kMs);
  EXPECT_EQ(world.engine.completed(second), 2u);
}

std::uint64_t launch_flag(World& world, std::uint32_t stream, std::uint32_t wait, std::uint32_t set,
                          std::uint32_t sms = 1) {
  Command command;
  command.submit_ns = world.engine.now_ns();
  command.order = ++world.order;
  command.wait_flag = wait;
  command.set_flag = set;
  command.sms = sms;
  return push(*world.state, stream, command);
}

TEST(Engine, MutualSpinEndsAcrossStreamsProcessesAndDevices) {
  Profile profile = *find_profile("h200");
  profile.count = 2;
  for (const int other_device : {0, 0, 1}) {
    World world(profile);
    const auto a = world.context(1), b = world.context(2, static_cast<std::uint32_t>(other_device));
    const auto sa = world.engine.create_stream(a, StreamKind::non_blocking);
    const auto sb = world.engine.create_stream(b, StreamKind::non_blocking);
    const auto ping = world.engine.flag(kNone, 1), pong = world.engine.flag(kNone, 2);
    launch_flag(world, sa, ping, pong, 132);
    world.engine.advance(kStart + 10 * kMs);
    EXPECT_EQ(world.engine.earliest_finish_ns(sa, 1), kNever);
    launch_flag(world, sb, kNone, ping, 132);
    launch_flag(world, sb, pong, kNone, 132);
    world.engine.advance(kStart + 30 * kMs);
    EXPECT_EQ(world.engine.completed(sa), 1u);
    EXPECT_EQ(world.engine.completed(sb), 2u);
  }
}

TEST(Engine, ALargeKernelRunsBesideOneThatSpinsForIt) {
  World world;
  const auto context = world.context(1);
  const auto spinner = world.engine.create_stream(context, StreamKind::non_blocking);
  const auto setter = world.engine.create_stream(context, StreamKind::non_blocking);
  const auto flag = world.engine.flag(kNone, 7);
  launch_flag(world, spinner, flag, kNone, 1);
  launch_flag(world, setter, kNone, flag, 132);
  world.engine.advance(kStart + kMs);
  EXPECT_EQ(world.engine.completed(spinner), 1u);
}

TEST(Engine, CopiesRunBesideKernelsAndCostNoHeldTime) {
  World world;
  const auto context = world.context(1);
  const auto kernels = world.engine.create_stream(context, StreamKind::non_blocking);
  const auto copies = world.engine.create_stream(context, StreamKind::non_blocking);
  world.launch(kernels, 1 * kMs, kStart);
  Command copy;
  copy.kind = CommandKind::copy_to_device;
  copy.submit_ns = kStart;
  copy.order = ++world.order;
  copy.amount = 10'000'000;
  ASSERT_NE(push(*world.state, copies, copy), 0u);
  world.engine.advance(kStart + 100 * kMs);
  EXPECT_EQ(world.account_of(context).held_ns, 1 * kMs);
  EXPECT_EQ(world.account_of(context).copy_ns, copy_ns(world.state->profile, copy.kind, copy.amount));
}

TEST(Engine, AQueueHoldsWhatItsProfileSaysUpTo1024) {
  for (const std::uint32_t asked : {4u, 1024u, 5000u}) {
    Profile profile = *find_profile("h200");
    profile.launch_queue_depth = asked;
    World world(profile);
    const auto stream = world.engine.create_stream(world.context(1), StreamKind::blocking);
    std::uint32_t taken = 0;
    while (world.launch(stream, kUs, kStart) != 0) ++taken;
    EXPECT_EQ(taken, std::min(asked, kMaxQueued));
  }
}

TEST(Engine, AStreamWaitsForAWordByEachComparisonAndWidth) {
  struct Case {
    std::uint64_t detail, value, not_yet, enough;
  };
  const Case cases[] = {{kFlagAtLeast, 5, 4, 6},
                        {kFlagAtLeast, 2, 0xfffffffe, 3},  // cyclic: -2 is less than 2
                        {kFlagEqual, 7, 8, 7},
                        {kFlagEqual, 7, 6, 0x100000007},  // only 32 bits count
                        {kFlagEqual | kFlagWide, 0x100000007, 7, 0x100000007},
                        {kFlagAtLeast | kFlagWide, 0x100000000, 0xffffffff, 0x100000001},
                        {kFlagAnd, 6, 8, 2},
                        {kFlagNor, 0x0fffffff, 0xf0000000, 0x70000000}};
  for (const Case& one : cases) {
    World world;
    const auto stream = world.engine.create_stream(world.context(1), StreamKind::non_blocking);
    const auto flag = world.engine.flag(kNone, 3);
    world.engine.write_flag(flag, one.not_yet);
    Command wait;
    wait.kind = CommandKind::wait_flag;
    wait.submit_ns = kStart;
    wait.order = ++world.order;
    wait.wait_flag = flag;
    wait.amount = one.value;
    wait.detail = one.detail;
    ASSERT_EQ(push(*world.state, stream, wait), 1u);
    world.engine.advance(kStart + kMs);
    EXPECT_EQ(world.engine.completed(stream), 0u) << one.detail << " " << one.value << " " << one.not_yet;
    EXPECT_EQ(world.engine.earliest_finish_ns(stream, 1), kNever);
    world.engine.write_flag(flag, one.enough);
    world.engine.advance(kStart + 2 * kMs);
    EXPECT_EQ(world.engine.completed(stream), 1u) << one.detail << " " << one.value << " " << one.enough;
  }
}

TEST(Engine, AQueueHolds1024CommandsAndThenRefuses) {
  World world;
  const auto context = world.context(1);
  const auto stream = world.engine.create_stream(context, StreamKind::blocking);
  for (std::uint32_t i = 0; i < kMaxQueued; ++i) ASSERT_EQ(world.launch(stream, kUs, kStart), i + 1);
  EXPECT_EQ(world.launch(stream, kUs, kStart), 0u);
  EXPECT_EQ(room_after(*world.state, stream), 1u);
  world.engine.advance(kStart + submit_of(world) + kUs);
  EXPECT_EQ(world.launch(stream, kUs, kStart), kMaxQueued + 1u);
}

TEST(Engine, CommandsOfOneLaunchTakeOnePlaceInTheQueue) {
  Profile profile = *find_profile("h200");
  profile.launch_queue_depth = 2;
  World world(profile);
  const auto stream = world.engine.create_stream(world.context(1), StreamKind::blocking);
  Command command;
  command.submit_ns = kStart;
  command.amount = kUs;
  const auto send = [&](std::uint32_t joining) {
    for (std::uint32_t i = 0; i < joining; ++i) {
      command.order = ++world.order;
      if (push(*world.state, stream, command, true) == 0) return i;
    }
    command.order = ++world.order;
    return push(*world.state, stream, command) == 0 ? joining : joining + 1;
  };
  EXPECT_EQ(send(1000), 1001u);
  EXPECT_EQ(send(1000), 1001u);
  EXPECT_EQ(send(0), 0u) << "two launches are queued";
  EXPECT_EQ(room_after(*world.state, stream), 1001u);
  world.engine.advance(kStart + submit_of(world) + 1000 * kUs);
  EXPECT_EQ(send(0), 0u);
  world.engine.advance(kStart + submit_of(world) + 1001 * kUs);
  EXPECT_EQ(send(5000), kRingCommands - 1001) << "what the ring does not hold waits for any command to end";
  EXPECT_EQ(room_after(*world.state, stream), 1002u);
}

TEST(Engine, AProcessesDeathFreesItsMemoryAndKeepsItsAccount) {
  World world;
  const auto dying = world.context(1), living = world.context(2);
  const std::uint32_t process = world.state->contexts[dying].process;
  const auto stream = world.engine.create_stream(dying, StreamKind::blocking);
  const auto other = world.engine.create_stream(living, StreamKind::blocking);
  const auto account = world.state->contexts[dying].account;
  ASSERT_TRUE(world.engine.reserve(account, 1 << 20));
  world.launch(stream, 1'000 * kMs, kStart);
  world.launch(other, 1 * kMs, kStart);
  world.engine.advance(kStart + submit_of(world) + 500 * kUs);
  world.engine.close_process(process);
  world.engine.advance(kStart + submit_of(world) + 1'500 * kUs);
  EXPECT_EQ(world.engine.completed(other), 1u);
  EXPECT_EQ(world.state->devices[0].bytes, 0u);
  EXPECT_EQ(world.state->accounts[account].held_ns, 500 * kUs);
  EXPECT_EQ(world.state->accounts[account].used, 2u);
  EXPECT_EQ(world.state->accounts[account].peak_bytes, 1u << 20);
}

TEST(Engine, MemoryIsRefusedWhenTheCardIsFullToTheByte) {
  World world;
  const auto account = world.state->contexts[world.context(1)].account;
  const std::uint64_t all = world.engine.free_bytes(0);
  EXPECT_FALSE(world.engine.reserve(account, all + 1));
  EXPECT_TRUE(world.engine.reserve(account, all));
  EXPECT_FALSE(world.engine.reserve(account, 1));
  world.engine.release(account, all);
  EXPECT_EQ(world.engine.free_bytes(0), all);
}

TEST(Engine, HistoriesAddUpToHeldTimeInEveryWindow) {
  World world;
  const auto context = world.context(1);
  const auto stream = world.engine.create_stream(context, StreamKind::blocking);
  for (int k = 0; k < 100; ++k) world.launch(stream, 3 * kMs, kStart + k * 7 * kMs);
  world.engine.advance(kStart + 1'000 * kMs);
  const auto& history = world.state->history[world.state->contexts[context].account];
  std::uint64_t sum = 0;
  for (std::uint64_t i = kStart / kBucketNs; i < (kStart + 1'000 * kMs) / kBucketNs; ++i)
    sum += held_in_bucket(history, i);
  EXPECT_EQ(sum, world.account_of(context).held_ns);
  EXPECT_EQ(sum, 300 * kMs);
}

TEST(Engine, APredictionIsExactForALoneStreamAndNeverLate) {
  World world;
  std::uint32_t streams[3];
  for (int i = 0; i < 3; ++i) {
    streams[i] = world.engine.create_stream(world.context(i + 1), StreamKind::blocking);
    for (int k = 0; k < 40; ++k)
      world.launch(streams[i], (100 + 150 * static_cast<std::uint64_t>(i)) * kUs, kStart + k * 10);
    if (i == 0) {
      world.engine.advance(kStart);
      EXPECT_EQ(world.engine.earliest_finish_ns(streams[0], 40), kStart + submit_of(world) + 4 * kMs);
    }
  }
  std::uint64_t looks = 0;
  for (const auto stream : streams) {
    while (world.engine.completed(stream) < 40) {
      const std::uint64_t at = world.engine.earliest_finish_ns(stream, 40);
      ASSERT_GT(at, world.engine.now_ns());
      world.engine.advance(at - 1);
      ASSERT_LT(world.engine.completed(stream), 40u);
      world.engine.advance(at);
      ++looks;
    }
  }
  EXPECT_LT(looks, 60u);
}

TEST(Engine, MpsClientsRunAtOnceOnTheirPartsOfTheSms) {
  World world;
  const auto client = [&](std::int32_t pid, std::uint32_t percent) {
    const auto process = world.engine.open_process(
        {.pid = pid, .pid_namespace = 0, .start_time = 0, .comm = "test", .mps_percent = percent});
    return world.engine.create_context(process, 0);
  };
  const auto quarter = client(1, 25), half = client(2, 50), outside = world.context(3);
  const auto a = world.engine.create_stream(quarter, StreamKind::blocking);
  const auto b = world.engine.create_stream(half, StreamKind::blocking);
  world.launch(a, 100 * kUs, kStart);  // takes 400 us on a quarter
  world.launch(b, 100 * kUs, kStart);
  world.launch(b, 10 * kUs, kStart, 33);  // takes as long on its part as on all SMs
  const std::uint64_t begin = kStart + submit_of(world);
  world.engine.advance(begin + 200 * kUs);
  EXPECT_EQ(world.engine.completed(b), 1u);
  world.engine.advance(begin + 210 * kUs);
  EXPECT_EQ(world.engine.completed(b), 2u);
  EXPECT_EQ(world.engine.completed(a), 0u);
  world.engine.advance(begin + 400 * kUs);
  EXPECT_EQ(world.engine.completed(a), 1u);
  EXPECT_EQ(world.account_of(quarter).held_ns, 400 * kUs);
  EXPECT_EQ(world.account_of(half).held_ns, 210 * kUs);
  EXPECT_EQ(world.account_of(quarter).sm_ns_sms, 33 * 400 * kUs);
  EXPECT_EQ(world.state->devices[0].busy_ns, 400 * kUs);

  // Next to a context that is no client, time is sliced, and all clients share one slice.
  const auto c = world.engine.create_stream(outside, StreamKind::blocking);
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t at = kStart + kMs;
    world.launch(a, 25 * kUs, at, 132), world.launch(b, 50 * kUs, at, 132), world.launch(c, 100 * kUs, at, 132);
  }
  world.engine.advance(kStart + 9 * kMs);
  const double clients = static_cast<double>(world.account_of(quarter).held_ns - 400 * kUs);
  EXPECT_NEAR(clients / static_cast<double>(world.account_of(outside).held_ns), 1, 0.35);
  world.engine.destroy_context(quarter);
  world.engine.advance(kStart + 100 * kMs);
  EXPECT_EQ(world.engine.completed(b), 102u) << "whose slice it was is gone, and the other clients go on";
  EXPECT_EQ(world.engine.completed(c), 100u);
}

TEST(Engine, MpsClientsThatDoNotFitTogetherStartByAge) {
  World world;
  std::uint32_t contexts[2], streams[2];
  for (int i = 0; i < 2; ++i) {
    const auto process = world.engine.open_process(
        {.pid = i + 1, .pid_namespace = 0, .start_time = 0, .comm = "test", .mps_percent = 100});
    contexts[i] = world.engine.create_context(process, 0);
    streams[i] = world.engine.create_stream(contexts[i], StreamKind::blocking);
    for (int k = 0; k < 100; ++k) world.launch(streams[i], 100 * kUs, kStart);
  }
  world.engine.advance(kStart + submit_of(world) + 10 * kMs);
  EXPECT_NEAR(static_cast<double>(world.engine.completed(streams[0])), 50, 1);
  EXPECT_NEAR(static_cast<double>(world.engine.completed(streams[1])), 50, 1);
}

}  // namespace
}  // namespace headgate::sim
