// How turns end, and what a holder's pauses give others, without a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "schedule/test_gpus.hpp"

namespace headgate::schedule {
namespace {

TEST(Arbiter, TheSuccessorMaySendOneKernelBeforeTheEnd) {
  Gpus gpus;
  const ShareId a = gpus.add({Terms{}}), b = gpus.add({Terms{}});
  gpus.want(a);
  gpus.want(b);
  Decision decision = gpus.decide(kMs);
  const ShareId first = gpus.gate(a) == Gate::open ? a : b, second = first == a ? b : a;
  gpus.run(first, kShortestLeaseNs);
  decision = gpus.decide(kMs + 50 * kUs);
  EXPECT_EQ(gpus.gate(second), Gate::queued);
  EXPECT_EQ(decision.wake_at_ns, kMs + kShortestLeaseNs - kOverlapNs);
  gpus.uses[{first, 0}].held_ns = kMs;
  decision = gpus.decide(decision.wake_at_ns);
  EXPECT_EQ(gpus.gate(second), Gate::batch);
  EXPECT_EQ(gpus.gate(first), Gate::open);
}
// It would spin for the other rank, which has no GPU yet.
TEST(Arbiter, ARankSendsNoKernelBeforeTheEnd) {
  Gpus gpus(2);
  const ShareId narrow = gpus.add({Terms{.gpu = 0}}), wide = gpus.add({Terms{.gpu = 0}, Terms{.gpu = 1}}, "gang");
  int turns = 0;
  bool had = false;
  for (std::int64_t at_ns = kMs, before_ns = 0; at_ns < 400 * kMs;) {
    for (const std::uint32_t gpu : {0u, 1u}) {
      if (gpus.gate(wide, gpu) == Gate::open)
        gpus.run(wide, 10 * kMs, gpu), gpus.uses[{wide, gpu}].held_ns += at_ns - before_ns;
      else gpus.rest(wide, gpu), gpus.want(wide, gpu);
    }
    if (gpus.gate(narrow) == Gate::open)
      gpus.run(narrow, 10 * kMs), gpus.uses[{narrow, 0}].held_ns += at_ns - before_ns;
    else gpus.rest(narrow), gpus.want(narrow);
    before_ns = at_ns;
    at_ns = gpus.decide(at_ns).wake_at_ns;
    const bool has = !is_closed(gpus.gate(wide, 0));
    EXPECT_EQ(has, !is_closed(gpus.gate(wide, 1))) << before_ns;
    turns += has && !had;
    had = has;
    while (const auto turn = gpus.arbiter.next_turn(before_ns)) gpus.arbiter.settle(*turn, 0);
  }
  EXPECT_GE(turns, 3);
}
TEST(Arbiter, NoSuccessorSendsAKernelEarlyBesideALatencyShare) {
  Gpus gpus;
  const ShareId a = gpus.add({Terms{}}), b = gpus.add({Terms{}}),
                fast = gpus.add({Terms{.priority_class = Class::latency}});
  gpus.want(a);
  gpus.want(b);
  gpus.decide(kMs);
  const ShareId first = gpus.gate(a) == Gate::open ? a : b, second = first == a ? b : a;
  gpus.run(first, kShortestLeaseNs);
  gpus.run(fast, 100 * kUs);
  gpus.decide(kMs + 50 * kUs);
  gpus.uses[{first, 0}].held_ns = kMs;
  gpus.decide(kMs + kShortestLeaseNs - kOverlapNs);
  EXPECT_EQ(gpus.gate(second), Gate::queued);
}
// Two shares that have been busy for 200 ms, and the end of a turn.
struct EndOfTurn {
  EndOfTurn() : a(gpus.add({Terms{}})), b(gpus.add({Terms{}})) {
    do play(gpus, {{a, {0}}, {b, {0}}}, at_ns, 1);
    while (at_ns < 200 * kMs || gpus.gate(a) != Gate::open);
  }
  // Advances by 0.5 ms at a time until the turn of `a` is over and its gate shut, with this much in flight all the
  // time.
  void keep_in_flight(std::int64_t in_flight_ns) {
    for (int i = 0; i < 100 && gpus.gate(a) == Gate::open; ++i) {
      gpus.run(a, in_flight_ns), gpus.uses[{a, 0}].held_ns += kMs / 2;
      gpus.want(b);
      gpus.decide(at_ns += kMs / 2);
    }
    gpus.want(a);
  }

  Gpus gpus;
  ShareId a, b;
  std::int64_t at_ns = kMs;
};
TEST(Arbiter, ATurnEndsWithItsLastKernels) {
  EndOfTurn end;
  end.keep_in_flight(2 * kMs);
  EXPECT_EQ(end.gpus.gate(end.a), Gate::queued);
  EXPECT_EQ(end.gpus.gate(end.b), Gate::queued);
  EXPECT_EQ(end.gpus.decide(end.at_ns).wake_at_ns, end.at_ns + 2 * kMs - kTailLeadNs);
  end.gpus.uses[{end.a, 0}].in_flight_ns = kTailLeadNs;
  end.gpus.decide(end.at_ns + 2 * kMs - kTailLeadNs);
  EXPECT_EQ(end.gpus.gate(end.b), Gate::open);
  EXPECT_EQ(end.gpus.gate(end.a), Gate::queued);
}
// Decided ahead of its time it needs no wake-up.
TEST(Arbiter, AHandOverBehindShortKernelsIsKnownBefore) {
  for (const std::int64_t next_kernel_ns : {200 * kUs, 5 * kMs, std::int64_t{0}}) {
    EndOfTurn end;
    end.gpus.uses[{end.a, 0}].kernel_ns = 200 * kUs;
    end.gpus.uses[{end.b, 0}].kernel_ns = next_kernel_ns;
    end.keep_in_flight(kMs);
    const Decision now = end.gpus.decide(end.at_ns);
    ASSERT_EQ(end.gpus.gate(end.b), Gate::queued);
    EXPECT_EQ(now.wake_at_ns, end.at_ns + kMs - kTailLeadNs);
    EXPECT_EQ(now.is_hand_over, next_kernel_ns == 200 * kUs);
    if (!now.is_hand_over) continue;
    end.gpus.uses[{end.a, 0}].in_flight_ns = kTailLeadNs;
    const Decision then = end.gpus.decide(now.wake_at_ns);
    EXPECT_FALSE(then.is_hand_over);
    const auto next = std::ranges::find(then.changes, end.b, &Change::share);
    ASSERT_NE(next, then.changes.end());
    EXPECT_EQ(next->gate, Gate::open);
    EXPECT_EQ(next->opens_ns, end.at_ns + kMs - kTailLeadNs);
  }
}
TEST(Arbiter, ATurnEndsAtOnceIfItsLastKernelsEndEarly) {
  EndOfTurn end;
  end.keep_in_flight(2 * kMs);
  ASSERT_EQ(end.gpus.gate(end.b), Gate::queued);
  EXPECT_EQ((end.gpus.batches[{end.a, 0}]), kEndingNs) << "so that its end is told";
  end.gpus.uses[{end.a, 0}].in_flight_ns = 0;
  end.gpus.decide(end.at_ns + kMs / 2);
  EXPECT_EQ(end.gpus.gate(end.b), Gate::open);
  EXPECT_EQ(end.gpus.gate(end.a), Gate::queued);
}
// Each look is a wake-up of the arbiter's thread.
TEST(Arbiter, AHandOverHiddenBehindKernelsNeedsNoEarlierLook) {
  for (const std::int64_t in_flight_ns : {kTailLeadNs, kTailLeadNs + 2 * kOverlapNs}) {
    EndOfTurn end;
    const std::int64_t lease_end_ns = end.at_ns - kMs + kShortestLeaseNs;
    end.gpus.run(end.a, in_flight_ns);
    end.gpus.want(end.b);
    EXPECT_EQ(end.gpus.decide(end.at_ns).wake_at_ns,
              in_flight_ns > kTailLeadNs + kOverlapNs ? lease_end_ns : lease_end_ns - kOverlapNs);
  }
}
// Shares with kernels of 200 us that always have work, but for one that is on the GPU a fifth of the time.
struct BusyShares {
  explicit BusyShares(int count) {
    for (int i = 0; i < count; ++i) all.push_back(gpus.add({Terms{}}));
    pauses = gpus.add({Terms{}});
    for (const ShareId each : all) gpus.uses[{each, 0}].kernel_ns = 200 * kUs;
    gpus.uses[{pauses, 0}].kernel_ns = 200 * kUs;
  }
  void look() {
    for (const ShareId each : all) {
      if (gpus.gate(each) == Gate::open) gpus.run(each, kTailLeadNs), gpus.uses[{each, 0}].held_ns += now_ns - since_ns;
      else gpus.rest(each), gpus.want(each);
    }
    Use& sparse = gpus.uses[{pauses, 0}];
    sparse.dry_ns = now_ns / 5 * 4;
    sparse.dry_spells = static_cast<std::uint64_t>(now_ns / (250 * kUs));
    since_ns = now_ns;
    now_ns = gpus.decide(now_ns).wake_at_ns;
    ++looks;
    while (const auto turn = gpus.arbiter.next_turn(since_ns)) gpus.arbiter.settle(*turn, 0);
  }
  ShareId holder() const {
    const auto found = std::ranges::find_if(all, [this](ShareId each) { return gpus.gate(each) == Gate::open; });
    return found == all.end() ? pauses : *found;
  }
  void end_turn() {
    const ShareId former = holder();
    while (holder() == former) look();
  }

  Gpus gpus;
  std::vector<ShareId> all;
  ShareId pauses;
  std::int64_t now_ns = kMs, since_ns = kMs;
  int looks = 0;
};
TEST(Arbiter, TurnsAreLongerIfAllAlwaysHaveShortKernels) {
  const auto turn_ns = [](int count, std::int64_t kernel_ns, std::uint32_t ceiling_ppm) {
    BusyShares busy(count);
    Use& use = busy.gpus.uses[{busy.all[1], 0}];
    if (kernel_ns != 0) use.kernel_ns = kernel_ns;
    use.ceiling_ppm = ceiling_ppm;
    while (busy.now_ns < 400 * kMs) busy.look();
    while (busy.holder() != busy.all[0]) busy.end_turn();
    const std::int64_t from_ns = busy.since_ns;
    busy.looks = 0;
    busy.end_turn();
    EXPECT_EQ(busy.looks, 1) << "each is a wake-up of the arbiter's thread";
    return busy.since_ns - from_ns;
  };
  EXPECT_EQ(turn_ns(2, 0, 1'000'000), kBusyLeaseNs);
  EXPECT_EQ(turn_ns(8, 0, 1'000'000), kBusyLeaseNs);
  EXPECT_EQ(turn_ns(8, 2 * kMs, 1'000'000), kShortestLeaseNs) << "one has long kernels";
  EXPECT_EQ(turn_ns(2, 0, 900'000), kLeastBusyNs) << "one has a ceiling";
  EXPECT_EQ(turn_ns(8, 0, 900'000), kMostBusyNs) << "one has a ceiling";
}
// While it rests its launch waits without a ring, so the arbiter looks at the end of the rest.
TEST(Arbiter, AShareThatRestsAmongBusySharesDoesNotRing) {
  Gpus gpus;
  const std::vector<ShareId> capped{gpus.add({Terms{}}), gpus.add({Terms{}})};
  const ShareId full = gpus.add({Terms{}});
  std::int64_t now_ns = kMs;
  for (const ShareId each : {capped[0], capped[1], full}) gpus.uses[{each, 0}].kernel_ns = 200 * kUs;
  for (int i = 0; i < 150; ++i) {
    for (const ShareId each : {capped[0], capped[1], full}) gpus.want(each);
    gpus.decide(now_ns += kMs);
  }
  for (const ShareId each : capped) gpus.uses[{each, 0}].ceiling_ppm = 300'000, gpus.uses[{each, 0}].credit_ns = 0;
  gpus.run(full, kMs);
  gpus.decide(now_ns += kMs);
  gpus.rest(capped[0]);
  gpus.uses[{capped[0], 0}].credit_ns = 7 * kMs;
  const Decision now = gpus.decide(now_ns += kMs);
  EXPECT_EQ(now.wake_at_ns - now_ns, 3 * kMs) << "it rests until 3 ms of GPU time are allowed, 10 ms";
  EXPECT_EQ(gpus.gate(capped[0]), Gate::queued);
  EXPECT_EQ(gpus.gate(capped[1]), Gate::queued);
  EXPECT_EQ(gpus.gate(full), Gate::open);
}
// Longer kernels that only wait for their turn change nothing. While one runs, and if but one other share has short
// kernels, the end of a rest is worth a ring.
TEST(Arbiter, ARestBesideLongerKernelsThatWaitNeedsNoRing) {
  const auto gate_while_resting = [](int short_ones, bool longer_runs) {
    Gpus gpus;
    std::vector<ShareId> all;
    for (int i = 0; i < 4; ++i) {
      all.push_back(gpus.add({Terms{}}));
      gpus.uses[{all.back(), 0}].kernel_ns = i < short_ones ? 200 * kUs : 20 * kMs;
    }
    std::int64_t now_ns = kMs;
    for (int i = 0; i < 150; ++i) {
      for (const ShareId each : all) gpus.want(each);
      gpus.decide(now_ns += kMs);
    }
    Use& resting = gpus.uses[{all[0], 0}];
    resting.ceiling_ppm = 300'000, resting.credit_ns = 0;
    gpus.run(all[1], kMs);
    if (longer_runs) gpus.run(all[3], 10 * kMs);
    gpus.decide(now_ns += kMs);
    gpus.rest(all[0]);
    gpus.decide(now_ns += kMs);
    return gpus.gate(all[0]);
  };
  EXPECT_EQ(gate_while_resting(3, false), Gate::queued);
  EXPECT_EQ(gate_while_resting(3, true), Gate::shut);
  EXPECT_EQ(gate_while_resting(2, false), Gate::shut);
}
TEST(Arbiter, IfAllRestTheirLaunchesPassWithoutARing) {
  Gpus gpus;
  const std::vector<ShareId> capped{gpus.add({Terms{}}), gpus.add({Terms{}})};
  for (const ShareId each : capped) {
    gpus.want(each);
    Use& use = gpus.uses[{each, 0}];
    use.kernel_ns = 200 * kUs, use.ceiling_ppm = 300'000, use.credit_ns = 0;
  }
  gpus.decide(200 * kMs);
  const Decision now = gpus.decide(201 * kMs);
  for (const ShareId each : capped) EXPECT_EQ(gpus.gate(each), Gate::open);
  EXPECT_EQ(now.wake_at_ns, 201 * kMs + kRestLookNs);
  Gpus lone;
  const ShareId single = lone.add({Terms{}});
  lone.uses[{single, 0}] = gpus.uses[{capped[0], 0}];
  lone.decide(200 * kMs);
  lone.decide(201 * kMs);
  EXPECT_EQ(lone.gate(single), Gate::open_notify);
}
TEST(Arbiter, AShareWithPausesThatWakesShortensATurn) {
  BusyShares busy(8);
  while (busy.now_ns < 400 * kMs) busy.look();
  busy.end_turn();
  const std::int64_t from_ns = busy.since_ns;
  busy.now_ns = from_ns + kMs;
  busy.gpus.want(busy.pauses);
  busy.end_turn();
  EXPECT_EQ(busy.since_ns - from_ns, kShortestLeaseNs);
}
// A share of 50 us kernels with pauses of 200 us beside one with kernels that do not fit into these.
struct Sparse {
  Gpus gpus;
  ShareId sparse = gpus.add({Terms{}}), full = gpus.add({Terms{}});
  std::int64_t now_ns = 20 * kMs;

  Sparse() {
    gpus.uses[{full, 0}].kernel_ns = 500 * kUs;  // so its turns are as long
    for (; now_ns < 40 * kMs; now_ns += kMs) work();
  }
  Decision work() {
    Use& use = gpus.uses[{sparse, 0}];
    use.kernel_ns = 50 * kUs;
    use.dry_ns = now_ns / 5 * 4;
    use.dry_spells = static_cast<std::uint64_t>(now_ns / (250 * kUs));
    gpus.run(sparse, 50 * kUs);
    return gpus.decide(now_ns);
  }
  // The full share has a turn, after which it is charged for so much more; then the sparse one has the GPU.
  void begin_turn(std::int64_t charged_ns) {
    gpus.want(full);
    looks_until(full);
    gpus.run(full, kMs);
    gpus.uses[{full, 0}].held_ns += charged_ns;
    looks_until(sparse);
    gpus.rest(full), gpus.want(full);
  }
  // Looks until the share has the GPU, and returns how often that was.
  int looks_until(ShareId share) {
    int looks = 0;
    while (gpus.gate(share) != Gate::open && ++looks < 100) now_ns = work().wake_at_ns;
    return looks;
  }
};

TEST(Arbiter, AHolderWithPausesIsLookedAtLessOftenTheLongerItWorks) {
  Sparse beside;
  beside.begin_turn(0);
  EXPECT_LE(beside.looks_until(beside.full), 5) << "each half millisecond, and before the end: 7";
}

TEST(Arbiter, AHolderWithPausesThatFollowsItselfIsLookedAtOnceATurn) {
  Sparse beside;
  beside.begin_turn(14 * kMs);  // five turns
  const std::int64_t from_ns = beside.now_ns;
  EXPECT_LE(beside.looks_until(beside.full), 10) << "before the end of each turn, too: 15; as often in each: 25";
  EXPECT_GE(beside.now_ns - from_ns, 12 * kMs);
}

TEST(Arbiter, ATurnContinuesIfNoOtherWantsTheGpu) {
  EndOfTurn end;
  end.keep_in_flight(2 * kMs);
  ASSERT_EQ(end.gpus.gate(end.a), Gate::queued);
  end.gpus.uses[{end.b, 0}] = {};
  end.gpus.decide(end.at_ns + 500 * kUs);
  end.gpus.decide(end.at_ns + 3 * kMs);
  EXPECT_TRUE(end.gpus.gate(end.a) == Gate::open || end.gpus.gate(end.a) == Gate::open_notify);
}
TEST(Arbiter, EndlessWorkIsWaitedForOnceAndCharged) {
  EndOfTurn end;
  end.keep_in_flight(3 * kMs);
  ASSERT_EQ(end.gpus.gate(end.b), Gate::queued);
  const std::int64_t before_ns = end.gpus.arbiter.virtual_time_ns(end.a, 0);
  std::int64_t waited_ns = 0;
  for (; end.gpus.gate(end.b) != Gate::open && waited_ns < 100 * kMs; waited_ns += 100 * kUs)
    end.gpus.decide(end.at_ns + waited_ns);
  EXPECT_LE(waited_ns, 3 * kMs + kTailLeadNs + 200 * kUs);
  // No process worked meanwhile, and the time belongs to its turn.
  for (std::int64_t at_ns = end.at_ns; at_ns < end.at_ns + 60 * kMs; at_ns += kMs)
    while (const auto turn = end.gpus.arbiter.next_turn(at_ns))
      end.gpus.arbiter.settle(*turn, turn->share == end.a ? 3 * kMs : 0);
  EXPECT_GE(end.gpus.arbiter.virtual_time_ns(end.a, 0) - before_ns, 2 * kMs / 100) << "at its weight";
}
TEST(Arbiter, ATurnDoesNotWaitForTooLongKernels) {
  EndOfTurn end;
  end.gpus.uses[{end.a, 0}].kernel_ns = kTailNs + kMs;
  end.keep_in_flight(10 * kMs);
  for (std::int64_t turn_ns = 0; turn_ns < kLongestLeaseNs; turn_ns += kMs / 2) end.gpus.decide(end.at_ns += kMs / 2);
  EXPECT_EQ(end.gpus.gate(end.b), Gate::open);
}
TEST(Arbiter, AShareWithPausesWaitsForNoLastKernels) {
  EndOfTurn end;
  for (int i = 0; i < 20; ++i) {  // it sleeps
    end.gpus.rest(end.b), end.gpus.run(end.a, 2 * kMs);
    end.gpus.decide(end.at_ns += kMs);
  }
  end.keep_in_flight(2 * kMs);
  EXPECT_EQ(end.gpus.gate(end.b), Gate::open);
}
TEST(Arbiter, SharesThatFitIntoPausesNeedNoDecision) {
  Gpus gpus;
  const ShareId a = gpus.add({Terms{}}), b = gpus.add({Terms{}});
  const auto sparse = [&](ShareId share, std::int64_t at_ns) {  // 50 us kernels, 200 us pauses
    Use& use = gpus.uses[{share, 0}];
    use.kernel_ns = 50 * kUs;
    use.dry_ns = at_ns / 5 * 4;
    use.dry_spells = static_cast<std::uint64_t>(at_ns / (250 * kUs));
    gpus.run(share, 50 * kUs);
  };
  Decision decision;
  std::int64_t now_ns = 20 * kMs;
  for (; now_ns <= 60 * kMs; now_ns += kMs) {
    for (const ShareId share : {a, b}) sparse(share, now_ns);
    decision = gpus.decide(now_ns);
  }
  const ShareId first = gpus.gate(a) == Gate::open ? a : b, second = first == a ? b : a;
  EXPECT_EQ(gpus.gate(first), Gate::open);
  EXPECT_EQ(gpus.gate(second), Gate::batch);
  std::int64_t looks = 0;
  for (const std::int64_t end_ns = now_ns + 50 * kMs; now_ns < end_ns; ++looks) {
    for (const ShareId share : {a, b}) sparse(share, now_ns);
    now_ns = gpus.decide(now_ns).wake_at_ns;
  }
  EXPECT_LE(looks, 50 * kMs / kShortestLeaseNs + 1);
}
// Its pauses last 20 ms, so the GPU would idle until it is known that one has begun.
TEST(Arbiter, TheNextSendsAKernelBeforeAHoldersLongPause) {
  Gpus gpus;
  const ShareId bursts = gpus.add({Terms{}}), full = gpus.add({Terms{}});
  gpus.uses[{bursts, 0}] = {.kernel_ns = 2 * kMs, .dry_ns = 80 * kMs, .dry_spells = 4};
  std::int64_t at_ns = 0;
  play(gpus, {{bursts, {0}}, {full, {0}}}, at_ns, 40);
  const auto play_while = [&](bool open) {
    for (int i = 0; i < 100 && (gpus.gate(bursts) == Gate::open) == open; ++i)
      play(gpus, {{bursts, {0}}, {full, {0}}}, at_ns, 1);
  };
  play_while(true);
  play_while(false);
  ASSERT_EQ(gpus.gate(bursts), Gate::open);
  gpus.run(bursts, 2 * kMs);
  at_ns = gpus.decide(at_ns).wake_at_ns;  // of a turn of 5 ms
  gpus.run(bursts, kOverlapNs);
  const Decision decision = gpus.decide(at_ns);
  EXPECT_EQ(gpus.gate(full), Gate::batch);
  EXPECT_EQ(gpus.gate(bursts), Gate::open);
  EXPECT_EQ(decision.wake_at_ns, at_ns + 2 * kOverlapNs);
  gpus.rest(bursts);
  gpus.decide(decision.wake_at_ns);
  EXPECT_EQ(gpus.gate(full), Gate::open);
}
// Each of them sends its part.
TEST(Arbiter, ABatchIsDividedAmongAFillersProcesses) {
  std::int64_t batch_ns[2] = {};
  for (const std::uint32_t processes : {1u, 4u}) {
    Gpus gpus;
    const ShareId sparse = gpus.add({Terms{.weight = 1'000}}), filler = gpus.add({Terms{.weight = 1}});
    for (std::int64_t now_ns = 20 * kMs; now_ns <= 60 * kMs; now_ns += kMs) {
      Use& use = gpus.uses[{sparse, 0}];
      use.kernel_ns = 50 * kUs;
      use.dry_ns = now_ns / 5 * 4;
      use.dry_spells = static_cast<std::uint64_t>(now_ns / (250 * kUs));
      gpus.run(sparse, 50 * kUs);
      gpus.uses[{filler, 0}].kernel_ns = 10 * kUs;
      gpus.uses[{filler, 0}].processes = processes;
      gpus.want(filler);
      for (const Change& change : gpus.decide(now_ns).changes)
        if (change.share == filler) batch_ns[processes > 1] = change.batch_ns;
    }
    EXPECT_EQ(gpus.gate(filler), Gate::batch);
  }
  EXPECT_EQ(batch_ns[0], kGapsInAPortion * 200 * kUs);
  EXPECT_EQ(batch_ns[1], batch_ns[0] / 4);
}

}  // namespace
}  // namespace headgate::schedule
