// The meter alone, on a GPU with one queue per stream: its events, streams that end, and a host that stalls.
#include "guest/limiter/compute/meter.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <vector>

namespace headgate::limiter {
namespace {

constexpr std::int64_t kUs = 1'000, kMs = 1'000'000;

struct OneLinePort {
  std::int64_t clock_ns = 1'000 * kMs;
  std::uintptr_t made = 0;
  std::map<abi::CUevent, std::int64_t> fired_ns;  // of live events
  std::map<abi::CUstream, std::int64_t> busy_until_ns;
  int failures = 0, records = 0, to_fail = 0;
  abi::CUresult ended = abi::CUDA_SUCCESS;  // result of queries; else an error that ended the context

  void run(abi::CUstream stream, std::int64_t length_ns) {
    std::int64_t& until = busy_until_ns[stream];
    until = std::max(until, clock_ns) + length_ns;
  }
  std::int64_t now_ns() { return clock_ns; }
  abi::CUresult create(abi::CUevent* event) {
    *event = reinterpret_cast<abi::CUevent>(++made * 16);
    fired_ns[*event] = 0;
    return abi::CUDA_SUCCESS;
  }
  void destroy(abi::CUevent event) { EXPECT_EQ(fired_ns.erase(event), 1U) << "destroyed twice"; }
  abi::CUresult record(abi::CUevent event, abi::CUstream stream) {
    EXPECT_TRUE(fired_ns.contains(event)) << "recorded after its end";
    if (to_fail > 0) return --to_fail, abi::CUDA_ERROR_OUT_OF_MEMORY;
    ++records;
    fired_ns[event] = std::max(busy_until_ns[stream], clock_ns);
    return abi::CUDA_SUCCESS;
  }
  abi::CUresult query(abi::CUevent event) {
    EXPECT_TRUE(fired_ns.contains(event)) << "asked after its end";
    if (ended != abi::CUDA_SUCCESS) return ended;
    return fired_ns[event] <= clock_ns ? abi::CUDA_SUCCESS : abi::CUDA_ERROR_NOT_READY;
  }
  abi::CUresult elapsed(float* ms, abi::CUevent start, abi::CUevent end) {
    *ms = static_cast<float>(static_cast<double>(fired_ns.at(end) - fired_ns.at(start)) * 1e-6);
    return abi::CUDA_SUCCESS;
  }
  abi::CUresult idle(abi::CUstream stream, ContextMeter&) {
    return busy_until_ns[stream] <= clock_ns ? abi::CUDA_SUCCESS : abi::CUDA_ERROR_NOT_READY;
  }
  void enter(ContextMeter&) {}
  void failed(ContextMeter&, abi::CUresult, const char*) { ++failures; }
  std::uint32_t ceiling_ppm(const ContextMeter&) { return ledger::kWholeGpu; }
  std::uint32_t burst_ppm(const ContextMeter&) { return 0; }
};

class MeterAlone : public testing::Test {
 protected:
  explicit MeterAlone(std::size_t count = 1) : streams(count) {
    context->handle = reinterpret_cast<abi::CUcontext>(16);
    context->account = account.get();
    context->pace = &pace;
    context->launches = &launches;
    for (std::size_t i = 0; i < count; ++i) {
      streams[i].handle = reinterpret_cast<abi::CUstream>((i + 1) * 16);
      streams[i].id = i + 1;
      streams[i].context = context.get();
      streams[i].quantum_ns = kQuantumNs;
      streams[i].used = true;
    }
    estimates->learn(kKernel, 20 * kUs);
  }
  // Launches a kernel with a known estimate of 20 us that takes `length_ns`; it is paid for.
  void launch(StreamMeter& stream, std::int64_t length_ns, bool alone = false) {
    pace.credit_ns += 20 * kUs;
    ASSERT_EQ(meter.pass(stream, kKernel, 20 * kUs, alone, false, port.clock_ns), 0);
    port.clock_ns += 1 * kUs;
    port.run(stream.handle, length_ns);
    meter.launched(stream, alone);
  }
  // Runs the settler until nothing is open or unsettled, or `most_ns` have passed.
  void settle(std::int64_t most_ns = 1'000 * kMs) {
    const std::int64_t until_ns = port.clock_ns + most_ns;
    while (port.clock_ns < until_ns) {
      const std::int64_t next = meter.settle(streams, port.clock_ns);
      if (next == kNothingOpen) return;
      port.clock_ns = std::max(port.clock_ns + 10 * kUs, std::min(next, port.clock_ns + 500 * kUs));
    }
  }
  std::size_t kept() const { return context->pooled + (context->anchor != nullptr ? 1 : 0); }
  std::int64_t held() const { return static_cast<std::int64_t>(account->held_ns.load()); }
  std::int64_t estimated() const { return static_cast<std::int64_t>(account->estimated_ns.load()); }
  void expect_nothing_left() const {
    EXPECT_EQ(pace.open.load(), 0);
    EXPECT_EQ(pace.busy_streams.load(), 0);
    EXPECT_EQ(pace.credit_ns.load(), 0);
    EXPECT_EQ(pace.unsettled_ns.load(), 0);
    EXPECT_EQ(pace.long_ns.load(), 0);
    EXPECT_EQ(account->in_flight_ns.load(), 0);
    EXPECT_EQ(port.fired_ns.size(), kept()) << "events without an owner";
    EXPECT_EQ(port.failures, 0);
  }

  static constexpr std::uint64_t kKernel = 7;
  OneLinePort port;
  std::unique_ptr<Estimates> estimates = std::make_unique<Estimates>();
  std::unique_ptr<ledger::ComputeAccount> account = std::make_unique<ledger::ComputeAccount>();
  std::unique_ptr<ContextMeter> context = std::make_unique<ContextMeter>();
  std::atomic<std::uint64_t> launches{0};
  Pace pace;
  std::vector<StreamMeter> streams;
  Meter<OneLinePort> meter{port, *estimates};
};
class MeterOfManyStreams : public MeterAlone {
 protected:
  MeterOfManyStreams() : MeterAlone(64) {}
};

TEST_F(MeterOfManyStreams, EventsReturnToTheDriverIfThePoolIsFull) {
  for (int round = 0; round < static_cast<int>(StreamMeter::kClosed); ++round)
    for (StreamMeter& stream : streams) {
      port.clock_ns += 1 * kUs;
      launch(stream, 20 * kUs, true);
    }
  ASSERT_GT(port.fired_ns.size(), ContextMeter::kPool);
  settle();
  EXPECT_EQ(context->pooled, ContextMeter::kPool);
  expect_nothing_left();
  EXPECT_EQ(launches.load(), StreamMeter::kClosed * streams.size());
}

TEST_F(MeterAlone, AnEventReturnsToTheDriverIfThePoolIsLocked) {
  launch(streams[0], 20 * kUs, true);
  context->pool_lock.try_lock();
  settle();
  context->pool_lock.unlock();
  expect_nothing_left();
}

TEST_F(MeterAlone, AnEndingContextTakesItsEventsAlong) {
  for (int i = 0; i < 5; ++i) launch(streams[0], 20 * kUs, true);
  launch(streams[0], 20 * kUs);
  meter.forget(streams[0], kNothingOpen);
  meter.forget_events(*context);
  EXPECT_EQ(held(), 6 * 20 * kUs);
  EXPECT_EQ(estimated(), held());
  EXPECT_TRUE(port.fired_ns.empty());
  expect_nothing_left();
}

TEST_F(MeterAlone, AnEndingProcessPaysOnlyForWhatHasRun) {
  launch(streams[0], 20 * kUs, true);
  port.clock_ns += 100 * kUs;
  for (int i = 0; i < 4; ++i) launch(streams[0], 20 * kUs, true);
  port.clock_ns += 30 * kUs;  // the first of the four is done, the next half done
  meter.settle_last(streams[0], port.clock_ns);
  EXPECT_NEAR(static_cast<double>(held()), 52'000, 5'000);
  EXPECT_GT(held(), estimated());
  EXPECT_EQ(pace.open.load(), 0);
  EXPECT_EQ(pace.busy_streams.load(), 0);
}

// The settler has stalled so long that there is no room for another bracket.
TEST_F(MeterAlone, ABracketWithoutRoomEndsWhereItWasClosed) {
  StreamMeter& stream = streams[0];
  for (std::uint32_t i = 0; i < StreamMeter::kClosed; ++i) launch(stream, 20 * kUs, true);
  launch(stream, 20 * kUs);
  meter.close(stream);  // as a synchronise does
  EXPECT_TRUE(stream.open.load());
  port.clock_ns += 400 * kMs;
  settle();
  launch(stream, 20 * kUs, true);
  settle();
  EXPECT_NEAR(static_cast<double>(held()), (StreamMeter::kClosed + 2) * 20'000.0, 20'000);
  expect_nothing_left();
}

// The program may fill the queue behind such work before it does what ends it.
TEST_F(MeterAlone, AStuckStreamGetsFewRecords) {
  StreamMeter& stream = streams[0];
  launch(stream, 60'000 * kMs, true);
  const int before = port.records;
  for (int i = 0; i < 500; ++i) {
    port.clock_ns += kPatienceNs;
    launch(stream, 20 * kUs);
    meter.close(stream);  // by the gate, or by the program's record
  }
  EXPECT_LE(port.records - before, static_cast<int>(2 * kMaxBehindStuck));
  settle(100'000 * kMs);
  EXPECT_EQ(launches.load(), 501U);
  expect_nothing_left();
}

// What other shares add to some measurements is no part of a kernel's length. A change of that is.
TEST(Estimates, OfLoneLaunchesTheShortestRecentOneCounts) {
  const auto estimates = std::make_unique<Estimates>();
  for (int i = 0; i < 40; ++i) estimates->learn_lone(1, i % 8 == 3 ? kMs : kMs + kMs / 10 * (i % 4));
  EXPECT_EQ(estimates->known_ns(1), kMs);
  for (int i = 0; i < 16; ++i) estimates->learn_lone(1, 2 * kMs);
  EXPECT_EQ(estimates->known_ns(1), 2 * kMs);
  estimates->learn_lone(1, kMs + kMs / 2);
  EXPECT_EQ(estimates->known_ns(1), kMs + kMs / 2) << "a shorter one counts at once";
}
TEST(Estimates, OfLaunchesThatDifferTheMeanCounts) {
  const auto estimates = std::make_unique<Estimates>();
  for (int i = 0; i < 200; ++i) estimates->learn_lone(1, i % 4 == 0 ? kMs : 5 * kMs);
  EXPECT_GT(estimates->known_ns(1), 3 * kMs);
}

// As soon as it is known how long a kernel takes without others' work, the arbiter is told that.
TEST(Estimates, WhatIsKnownWithoutOthersWorkIsTold) {
  const auto estimates = std::make_unique<Estimates>();
  EXPECT_EQ(told_length_ns(*estimates, 1), 0);
  estimates->learn(1, 40 * kMs);
  EXPECT_EQ(told_length_ns(*estimates, 1), 40 * kMs);
  estimates->learn_undivided(1, 20 * kMs);
  EXPECT_EQ(told_length_ns(*estimates, 1), 20 * kMs);
  EXPECT_EQ(estimates->known_ns(1), 40 * kMs) << "what its next launch should take";
  estimates->learn(2, kMs);
  estimates->learn_undivided(2, kMs / 2);
  EXPECT_EQ(told_length_ns(*estimates, 2), kMs) << "a short one";
  estimates->learn(3, 9 * kMs);
  estimates->learn_undivided(3, 5 * kMs);
  EXPECT_EQ(told_length_ns(*estimates, 3), 9 * kMs) << "a turn has room for it";
}

// A command of known length passes after 20 ms; one of unknown length waits as long as the work has already run.
TEST(Pacer, LetsMeasuredCommandsPassBehindWorkOfUnknownLength) {
  for (const bool measured : {true, false}) {
    const auto account = std::make_unique<ledger::ComputeAccount>();
    Pace pace;
    std::int64_t now_ns = 5'000 * kMs;
    const std::int64_t begun_ns = now_ns;
    pace.oldest_ns = begun_ns;
    pace.busy_until_ns = now_ns + 100'000 * kMs;
    for (int i = 0; i < 50; ++i) {
      const std::int64_t asked_ns = now_ns;
      while (true) {
        const Admission one = admit(*account, pace, 500'000, now_ns, asked_ns, 100 * kUs, false, -begun_ns, measured);
        if (one.wait_ns == 0) break;
        now_ns += one.wait_ns;
      }
    }
    if (measured) EXPECT_LE(now_ns - begun_ns, 50 * (kPatienceNs + kMs));
    else EXPECT_GT(now_ns - begun_ns, 20'000 * kMs);
  }
}

// The program may queue a thousand commands behind such a wait, at any speed, before it ends the wait.
TEST(Pacer, CountsFromNowIfTheSharesWorkIsOutOfReason) {
  const auto account = std::make_unique<ledger::ComputeAccount>();
  for (const std::int64_t damaged : {INT64_MAX, INT64_MIN, 1'000 * kMs + 700'000 * kMs}) {
    account->sent_until_ns.store(damaged);
    count_in_share(*account, 1'000 * kMs, 1 * kMs, false);
    EXPECT_EQ(account->sent_until_ns.load(), 1'001 * kMs) << damaged;
  }
}
TEST_F(MeterAlone, AStreamBehindTheProgramsWaitGetsFewRecords) {
  StreamMeter& stream = streams[0];
  launch(stream, 20 * kUs);
  meter.close(stream);
  meter.waits(stream);
  const int before = port.records;
  for (int i = 0; i < 1000; ++i) {
    launch(stream, 20 * kUs);
    meter.close(stream);  // by the program's record
  }
  EXPECT_LE(port.records - before, static_cast<int>(2 * kMaxBehindWait + 1));
  settle(1'000 * kMs);
  EXPECT_EQ(launches.load(), 1001U);
  EXPECT_FALSE(meter.is_behind_wait(stream)) << "the wait is over";
  for (int i = 0; i < 4; ++i) launch(stream, 20 * kUs, true);
  settle(1'000 * kMs);
  expect_nothing_left();
}

// The program has recorded an event, and its next record measures how long the launches in between took.
TEST_F(MeterAlone, TimedWorkPassesAsDebt) {
  StreamMeter& stream = streams[0];
  const std::int64_t owed_until_ns = port.clock_ns + 500 * kMs;
  const auto passes = [&] { return meter.pass(stream, kKernel, 2 * kMs, false, false, port.clock_ns) == 0; };
  account->paid_until_ns = owed_until_ns;
  EXPECT_FALSE(passes());
  stream.section_ns = 5 * kMs;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(passes()) << i;
  EXPECT_FALSE(passes());
  EXPECT_GE(account->paid_until_ns.load(), owed_until_ns + 6 * kMs);
}

// A kernel of 20 us that ran for 30 ms: a launch as debt ended its wait, or it had that much to do. A launch that passed
// after its end did not end it.
TEST_F(MeterAlone, AWaitForALaunchIsNoWorkOfTheShare) {
  for (const std::int64_t debt_ms : {29, 31, 0}) {
    const bool released = debt_ms == 29;
    const std::int64_t began_ns = port.clock_ns;
    account->last_debt_ns = debt_ms == 0 ? 0 : began_ns + debt_ms * kMs;
    launch(streams[0], 30 * kMs, true);
    settle();
    const std::int64_t counted_ns = account->sent_until_ns.load() - began_ns;
    if (released) EXPECT_LE(counted_ns, 1 * kMs);
    else EXPECT_GE(counted_ns, 29 * kMs);
    EXPECT_TRUE(!released || estimates->known_ns(kKernel) == 20 * kUs);
  }
}
// Its length is still unknown, but waiting for it to be measured would keep the launch that it waits for.
TEST_F(MeterAlone, AnUnmeasuredKernelThatWaitedForALaunchCountsAsShort) {
  constexpr std::uint64_t kNew = 99;
  account->last_debt_ns = port.clock_ns + 29 * kMs;
  pace.credit_ns += 20 * kUs;
  ASSERT_EQ(meter.pass(streams[0], kNew, 20 * kUs, true, false, port.clock_ns), 0);
  port.run(streams[0].handle, 30 * kMs);
  meter.launched(streams[0], true);
  settle();
  EXPECT_EQ(estimates->known_ns(kNew), kUnknownCommandNs);
  EXPECT_TRUE(estimates->young(kNew));
}
TEST_F(MeterOfManyStreams, NoMoreUnknownKernelsAreSentThanMeasureThem) {
  for (const bool arbitrated : {false, true}) {
    context->arbitrated = arbitrated;
    pace.unknown = 0;
    int passed = 0;
    for (StreamMeter& stream : streams) {
      pace.credit_ns += kUs;
      passed += meter.pass(stream, 99, kUs, true, false, port.clock_ns) == 0;
    }
    EXPECT_EQ(passed, arbitrated ? kMaxUnknownInTurns : kMaxUnknown);
    for (StreamMeter& stream : streams) meter.close(stream);
    settle();
    estimates->forget(99);
  }
}
// Its launches would pass as fast as time does.
TEST_F(MeterAlone, LittleWorkThatCountsAsShortIsUnsettled) {
  context->arbitrated = true;
  for (int i = 0; i < 20; ++i) estimates->learn(99, i % 2 == 0 ? 10 * kUs : 4 * kMs);
  for (const bool much : {false, true}) {
    pace.long_ns = 100 * kMs;  // not meant
    pace.unsettled_ns = pace.long_ns + kMaxUnsettledNs + (much ? 1 : 0);
    pace.credit_ns = 2 * kUnknownCommandNs;
    EXPECT_EQ(meter.pass(streams[0], 99, estimates->guess_ns(99), true, false, port.clock_ns) != 0, much);
  }
}
TEST_F(MeterAlone, ALaunchWaitsForItsStreamAsLongAsThatShouldTake) {
  pace.oldest_ns = port.clock_ns - 100 * kMs;
  account->paid_until_ns = port.clock_ns + 1'000'000 * kMs;
  streams[0].due_ns = port.clock_ns + 300 * kMs;
  const std::int64_t asked_ns = port.clock_ns;
  while (meter.pass(streams[0], kKernel, 20 * kUs, true, false, asked_ns) != 0 && port.clock_ns < asked_ns + 900 * kMs)
    port.clock_ns += kMs;
  EXPECT_EQ(port.clock_ns - asked_ns, 300 * kMs + kPatienceNs);
}
// However long others had the GPU, only what is not settled is ahead.
TEST_F(MeterAlone, UnsettledWorkIsAllThatIsAhead) {
  launch(streams[0], 1'000 * kMs, true);
  pace.busy_until_ns = port.clock_ns + 500 * kMs;
  meter.settle(streams, port.clock_ns += kMs);
  EXPECT_EQ(pace.busy_until_ns.load(), port.clock_ns + 20 * kUs);
}
TEST_F(MeterAlone, AKernelThatOthersSlicesStretchTeachesNothing) {
  context->arbitrated = true;
  for (const bool within_turn : {true, false}) {
    estimates->expect(kKernel, 20 * kUs);
    for (int i = 0; i < 10; ++i) estimates->learn(kKernel, 20 * kUs);
    const auto learned = [&](std::int64_t length_ns) {
      pace.set_turn_awaited(within_turn ? 0 : port.clock_ns);
      launch(streams[0], length_ns, true);
      settle();
      return estimates->known_ns(kKernel) - 20 * kUs;
    };
    if (within_turn) {
      EXPECT_EQ(learned(24 * kUs), 500) << "less than a quarter longer is the kernel's own";
      estimates->learn(kKernel, 16'500);
    }
    const std::int64_t before_ns = learned(19 * kUs);
    for (const std::int64_t length_ns : {60 * kUs, 40 * kUs, 100 * kUs}) EXPECT_EQ(learned(length_ns), before_ns);
    const std::int64_t taught_ns = (within_turn ? 80 : 40) * kUs - (20 * kUs + before_ns);
    EXPECT_NEAR(static_cast<double>(learned(80 * kUs) - before_ns), static_cast<double>(taught_ns) / 8, 100)
        << "four in a row are longer: as the shortest if it is not sure, else as this one";
  }
}
// A launch that blocks in a full queue: the GPU comes to its work 1 ms after the call begins, 9 ms before it returns.
TEST_F(MeterAlone, ACallThatUsuallyBlocksIsChargedFromWhenTheGpuCame) {
  launch(streams[0], 20 * kUs, true);
  settle();
  for (const std::uint64_t kernel : {98, 99}) {
    const bool usual = kernel == 99;
    const std::int64_t before_ns = held();
    estimates->learn(kernel, 20 * kUs);
    if (usual) estimates->learn_call(kernel, 10 * kMs);
    port.busy_until_ns[streams[0].handle] = port.clock_ns + kMs;  // by another context
    pace.credit_ns += 20 * kUs;
    ASSERT_EQ(meter.pass(streams[0], kernel, 20 * kUs, true, false, port.clock_ns), 0);
    port.run(streams[0].handle, 10 * kMs);
    port.clock_ns += 10 * kMs;
    meter.launched(streams[0], true);
    settle();
    if (usual) EXPECT_NEAR(static_cast<double>(held() - before_ns), 10e6, 1e5);
    else EXPECT_LE(held() - before_ns, 2 * kMs) << "the thread may have been stopped before it sent the kernel";
  }
}

// Of a call that ends just after the GPU came to its work, that work is marked from then on: marked later, others' replays
// gave the time between, and the slice, to another context.
TEST_F(MeterAlone, ACallThatEndsWithTheGpusComingWasWaitingForIt) {
  launch(streams[0], 20 * kUs, true);
  settle();
  for (const std::int64_t after_ns : {50 * kUs, 400 * kUs}) {
    const std::int64_t before_ns = held();
    const std::uint64_t kernel = 100 + static_cast<std::uint64_t>(after_ns);
    estimates->learn(kernel, 3 * kMs);
    port.busy_until_ns[streams[0].handle] = port.clock_ns + kMs;  // by another context
    pace.credit_ns += 3 * kMs;
    ASSERT_EQ(meter.pass(streams[0], kernel, 3 * kMs, true, false, port.clock_ns), 0);
    port.run(streams[0].handle, 3 * kMs);
    port.clock_ns += kMs + after_ns;
    meter.launched(streams[0], true);
    settle();
    EXPECT_NEAR(static_cast<double>(held() - before_ns), after_ns < kMs / 8 ? 3e6 : 2.6e6, 5e3);
  }
}

// Should the next take as long, the call blocks; else this one was stopped, and the kernel took what is left.
TEST_F(MeterAlone, ACallThatTookLongIsSupposedToHaveStopped) {
  launch(streams[0], kMs, true);
  pace.credit_ns += 20 * kUs;
  ASSERT_EQ(meter.pass(streams[0], 98, 20 * kUs, true, false, port.clock_ns), 0);
  port.run(streams[0].handle, 10 * kMs);
  port.clock_ns += 10 * kMs;
  meter.launched(streams[0], true);
  settle();
  EXPECT_NEAR(static_cast<double>(estimates->known_ns(98)), 1e6, 1e4);
}

TEST_F(MeterAlone, AFailedCallIsRepeated) {
  port.to_fail = 1;
  launch(streams[0], 20 * kUs, true);
  settle();
  EXPECT_FALSE(context->failed.load());
  EXPECT_EQ(held(), 20 * kUs);
  EXPECT_EQ(estimated(), 0);
  expect_nothing_left();
}

TEST_F(MeterAlone, AContextThatFailedIsMeasuredAgain) {
  launch(streams[0], 20 * kUs);
  port.to_fail = 2;
  meter.close(streams[0]);
  EXPECT_TRUE(context->failed.load());
  EXPECT_EQ(meter.settle(streams, port.clock_ns), kNothingOpen);
  port.clock_ns = context->retry_ns.load();
  meter.abandon(streams[0], port.clock_ns);
  context->last_end_ns = 60'000 * kMs;
  meter.resume(*context);
  EXPECT_EQ(context->last_end_ns, 0) << "GPU time begins again";
  EXPECT_EQ(estimated(), 20 * kUs);
  EXPECT_GT(context->failing_ns.load(), 0) << "nothing has been measured yet";
  launch(streams[0], 20 * kUs, true);
  settle();
  EXPECT_EQ(context->failing_ns.load(), 0);
  EXPECT_EQ(held() - estimated(), 20 * kUs);
  expect_nothing_left();
}

// cuda.h: this error ends the context.
TEST_F(MeterAlone, AnAbandonedContextIsNotRetried) {
  launch(streams[0], 20 * kUs, true);
  port.ended = static_cast<abi::CUresult>(719);
  settle();
  EXPECT_TRUE(context->failed.load());
  EXPECT_EQ(context->retry_ns.load(), kNeverMetered);
  EXPECT_EQ(port.failures, 1);
}

TEST_F(MeterAlone, ABracketAcrossAWaitIsChargedItsKernelsOnly) {
  StreamMeter& stream = streams[0];
  for (std::uint32_t i = 0; i < StreamMeter::kClosed; ++i) launch(stream, 20 * kUs, true);
  for (int i = 0; i < 3; ++i) {
    launch(stream, 20 * kUs);
    meter.close(stream);
    port.clock_ns += 50 * kMs;
  }
  settle();
  EXPECT_NEAR(static_cast<double>(held()), (StreamMeter::kClosed + 3) * 20'000.0, 20'000);
  expect_nothing_left();
}

// The program waits for a bracket that had no room to end: no call of it will close that, and other shares look for its
// marks meanwhile. Also once it is closed: its launches went on for longer than they should take, but the GPU worked
// meanwhile. Charged when it ended, what the ring had forgotten by then was charged to several processes, each in full.
TEST_F(MeterAlone, AKeptBracketIsChargedWhileItRuns) {
  for (const bool is_closed : {false, true}) {
    StreamMeter& stream = streams[0];
    for (std::uint32_t i = 0; i < StreamMeter::kClosed; ++i) launch(stream, 20 * kUs, true);
    const std::int64_t begun_ns = port.clock_ns, paid_ns = held();
    launch(stream, 300 * kMs);
    meter.close(stream);
    ASSERT_TRUE(stream.bracket.kept);
    if (is_closed) {
      settle(40 * kMs);
      launch(stream, 20 * kUs);
      meter.close(stream);
    }
    ASSERT_EQ(stream.open.load(), !is_closed);
    for (int i = 0; i < 4; ++i) {
      settle(60 * kMs);
      EXPECT_NEAR(static_cast<double>(held() - paid_ns), static_cast<double>(port.clock_ns - begun_ns),
                  static_cast<double>(kSeenLateNs));
    }
    settle();
    EXPECT_NEAR(static_cast<double>(held() - paid_ns), 300.6e6, static_cast<double>(kSeenLateNs));
    expect_nothing_left();
    port.clock_ns += 100 * kMs;
  }
}

// Nor is it charged again, as an estimate, when its stream is found idle.
TEST_F(MeterAlone, AKeptBracketIsChargedOnce) {
  StreamMeter& stream = streams[0];
  for (std::uint32_t i = 0; i < StreamMeter::kClosed; ++i) launch(stream, 20 * kUs, true);
  for (int i = 0; i < 10'000; ++i) launch(stream, 20 * kUs);
  meter.close(stream);
  ASSERT_TRUE(stream.bracket.kept);
  for (int i = 0; i < 4; ++i) settle(60 * kMs);
  settle();
  EXPECT_NEAR(static_cast<double>(held()), 200.6e6, static_cast<double>(kSeenLateNs));
  expect_nothing_left();
}

// Without a daemon, in the middle of the share's span. A kernel of 2 ms meets one slice of another context before it and
// one after its own; what is longer by whole slices may be that each time.
TEST_F(MeterAlone, SlicesOfOthersAreNoLongerKernel) {
  constexpr std::uint64_t kSliced = 8;
  const auto estimate_after = [&](std::int64_t length_ns) {
    estimates->expect(kSliced, 2 * kMs);
    for (std::uint32_t i = 0; i < kYoung; ++i) estimates->learn(kSliced, 2 * kMs);
    pace.cycle_ns = 100 * kMs, pace.span_from_ns = 0, pace.span_ns = 90 * kMs;
    for (int i = 0; i < 8; ++i) {
      port.clock_ns = (port.clock_ns / (100 * kMs) + 1) * 100 * kMs + 40 * kMs;
      pace.credit_ns += 2 * kMs;
      EXPECT_EQ(meter.pass(streams[0], kSliced, 2 * kMs, true, false, port.clock_ns), 0);
      port.run(streams[0].handle, length_ns);
      meter.launched(streams[0], true);
      settle();
    }
    return estimates->known_ns(kSliced);
  };
  EXPECT_EQ(estimate_after(4 * kMs), 2 * kMs);
  EXPECT_EQ(estimate_after(6 * kMs), 2 * kMs);
  EXPECT_EQ(estimate_after(5 * kMs), 5 * kMs);
  EXPECT_EQ(estimate_after(8 * kMs), 8 * kMs);
}

TEST_F(MeterAlone, AStoppedProcessPaysNothingForTheStop) {
  launch(streams[0], 20 * kUs);
  port.clock_ns += 1'000 * kMs;
  launch(streams[0], 20 * kUs);
  // Other processes' work is before it, so its end is not waited for.
  port.run(streams[0].handle, 2 * kMs);
  meter.close(streams[0]);
  settle();
  EXPECT_LE(held(), 100 * kUs);
  expect_nothing_left();
}

TEST_F(MeterAlone, AThreadPreemptedAtALaunchPaysForTheKernel) {
  for (const bool before : {true, false}) {
    const std::int64_t paid = held();
    StreamMeter& stream = streams[0];
    pace.credit_ns += 20 * kUs;
    ASSERT_EQ(meter.pass(stream, kKernel, 20 * kUs, true, false, port.clock_ns), 0);
    if (before) port.clock_ns += 3 * kMs;
    port.run(stream.handle, 20 * kUs);
    if (!before) port.clock_ns += 3 * kMs;
    meter.launched(stream, true);
    settle();
    EXPECT_NEAR(static_cast<double>(held() - paid), 20'000, 1'000) << (before ? "before" : "after");
    EXPECT_EQ(estimates->known_ns(kKernel), 20 * kUs) << "learned from a guess";
    port.clock_ns += 50 * kMs;
  }
  expect_nothing_left();
}

TEST_F(MeterAlone, ADestroyedStreamIsNotQueriedAndItsPlaceIsFreed) {
  StreamMeter& stream = streams[0];
  for (std::uint32_t i = 0; i < StreamMeter::kClosed; ++i) launch(stream, 20 * kUs, true);
  launch(stream, 20 * kUs);
  meter.close(stream);
  stream.handle = nullptr;
  stream.id = kGoneStream;
  settle();
  EXPECT_FALSE(stream.open.load());
  EXPECT_FALSE(port.busy_until_ns.contains(nullptr)) << "asked the default stream";
  expect_nothing_left();
}

}  // namespace
}  // namespace headgate::limiter
