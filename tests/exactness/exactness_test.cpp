#include <gtest/gtest.h>

#include <cmath>

#include "exactness/model.hpp"

namespace headgate::limiter::model {
namespace {

constexpr std::int64_t kUs = 1'000, kMs = 1'000'000, kSecond = 1'000'000'000;

struct Figures {
  double bias = 0, rms_1s = 0, rms_100ms = 0, charged = 0;
  std::vector<std::int64_t> sent_ns{};
};

double rms(const Machine& machine, std::int64_t total, std::int64_t window, double asked) {
  double squares = 0;
  for (std::int64_t at = 0; at < total; at += window) {
    const double error = machine.held_percent(at, at + window) - asked;
    squares += error * error;
  }
  const std::int64_t windows = total / window;
  return std::sqrt(squares / static_cast<double>(windows));
}

Figures measure(const Setup& setup, std::int64_t total = 5 * kSecond) {
  Machine machine(setup);
  machine.run(total);
  const double asked = setup.ceiling_ppm / 1e4;
  Figures f{machine.held_percent(0, total) - asked, rms(machine, total, kSecond, asked),
            rms(machine, total, 100 * kMs, asked), machine.charged_percent() - machine.held_percent(0, total),
            machine.sent_ns};
  std::printf(
      "%5.0f %% %dp %2dt %2ds  bias %+7.3f  1s %6.3f  100ms %6.3f  charged-truth %+6.3f  est %5.3f  rec/l %.3f q/br "
      "%.2f wait/l %.2f ahead %.2f ms\n",
      asked, setup.processes, setup.threads, setup.streams, f.bias, f.rms_1s, f.rms_100ms, f.charged,
      machine.estimated_part(),
      static_cast<double>(machine.counts.records) / static_cast<double>(machine.counts.launches),
      2.0 * static_cast<double>(machine.counts.queries) / static_cast<double>(machine.counts.records),
      static_cast<double>(machine.counts.waits) / static_cast<double>(machine.counts.launches),
      static_cast<double>(machine.most_ahead_ns) / 1e6);
  EXPECT_EQ(machine.counts.settler_enqueues, 0u);
  return f;
}

void expect_exact(const Setup& setup) {
  const Figures f = measure(setup);
  EXPECT_LE(std::abs(f.bias), 0.1);
  EXPECT_LE(f.rms_1s, 0.2);
  EXPECT_LE(f.rms_100ms, 1.0);
}

constexpr std::uint32_t kShares[] = {50'000, 100'000, 250'000, 500'000, 750'000, 950'000};

// Figures of a gate without any lateness for these kernels, which cannot be interrupted: each starts once its
// predecessors are paid for. A command longer than 1 % of a window shows in it whatever the gate does.
Figures ideal(const std::vector<std::int64_t>& sent_ns, const Setup& setup, std::int64_t total = 5 * kSecond) {
  constexpr std::int64_t kWindow = 100 * kMs;
  const double ceiling = setup.ceiling_ppm / 1e6;
  std::vector<double> held(static_cast<std::size_t>(total / kWindow));
  std::int64_t now = 0, paid = 0;
  for (const std::int64_t length : sent_ns) {
    const std::int64_t start = std::max(now, paid);
    paid = std::max(paid, now) + static_cast<std::int64_t>(static_cast<double>(length) / ceiling);
    now = start + length;
    for (std::int64_t at = start; at < std::min(now, total);) {
      const std::int64_t to = std::min({now, total, (at / kWindow + 1) * kWindow});
      held[static_cast<std::size_t>(at / kWindow)] += 100.0 * static_cast<double>(to - at) / kWindow;
      at = to;
    }
  }
  Figures f;
  for (std::size_t second = 0; second < held.size() / 10; ++second) {
    double sum = 0;
    for (std::size_t i = 0; i < 10; ++i) {
      const double error = held[10 * second + i] - 100 * ceiling;
      sum += error / 10;
      f.rms_100ms += error * error / static_cast<double>(held.size());
    }
    f.rms_1s += sum * sum / (static_cast<double>(held.size()) / 10);
  }
  f.rms_1s = std::sqrt(f.rms_1s);
  f.rms_100ms = std::sqrt(f.rms_100ms);
  return f;
}

// Excuses time that the machine withheld from the share: the GPU was idle, the gate was open, and the only client was
// not scheduled for 0.2 ms or more. Splits windows like the bench (bench/split.hpp); time caught up later does not
// count as surplus.
Figures judged(const Machine& machine, std::int64_t total, double asked, double other) {
  Figures f;
  const auto split = [&](std::int64_t window) {
    double squares = 0, owed = 0, sum = 0;
    for (std::int64_t at = 0; at < total; at += window) {
      const double error = (machine.held_percent(at, at + window) - asked) / 100 * static_cast<double>(window);
      const double late = asked / 100 * static_cast<double>(machine.unasked_ns(at, at + window));
      const double excused = error < 0 ? -std::min(-error, late) : std::min(error, owed);
      owed -= excused;
      squares += std::pow(100 * (error - excused) / static_cast<double>(window), 2);
      sum += 100 * (error - excused);
    }
    f.bias = sum / static_cast<double>(total);
    return std::sqrt(squares / (static_cast<double>(total) / static_cast<double>(window)));
  };
  f.rms_1s = split(kSecond);
  f.rms_100ms = split(100 * kMs);
  const double unasked = 100 * static_cast<double>(machine.unasked_ns(0, total)) / static_cast<double>(total);
  std::printf("        no process asked %.2f %% of the time; the gate's part: bias %+.3f  1s %.3f  100ms %.3f\n",
              unasked, f.bias, f.rms_1s, f.rms_100ms);
  // If that exceeds what the share leaves, the share can get at most the rest of the GPU's time, and does, within
  // `other` points.
  EXPECT_GE(machine.held_percent(0, total), std::min(asked - 0.1, 100 - unasked - other));
  return f;
}
Figures judge_loaded(const Setup& setup, double other, std::int64_t total = 5 * kSecond) {
  measure(setup, total);
  Machine machine(setup);
  machine.run(total);
  return judged(machine, total, setup.ceiling_ppm / 1e4, other);
}

KernelMix every_fourth_is_5_ms() {
  return [](std::mt19937_64& random) { return Kernel{1, random() % 4 == 0 ? 5 * kMs : 20 * kUs}; };
}
KernelMix one_function_with_a_long_tail() {
  return [](std::mt19937_64& random) {
    const double gauss = std::normal_distribution<double>()(random);
    return Kernel{1, std::max<std::int64_t>(5 * kUs, static_cast<std::int64_t>(200'000 * std::exp(gauss)))};
  };
}

TEST(Exactness, AShareOf20UsKernelsGetsItsLimit) {
  for (const std::uint32_t ppm : kShares) expect_exact({.ceiling_ppm = ppm, .mix = constant(20 * kUs)});
}
TEST(Exactness, AShareOf200UsKernelsGetsItsLimit) {
  for (const std::uint32_t ppm : kShares) expect_exact({.ceiling_ppm = ppm, .mix = constant(200 * kUs)});
}
TEST(Exactness, AShareOf1MsKernelsGetsItsLimit) {
  for (const std::uint32_t ppm : kShares) expect_exact({.ceiling_ppm = ppm, .mix = constant(kMs)});
}
TEST(Exactness, AShareOfMixedKernelsGetsItsLimit) {
  for (const std::uint32_t ppm : kShares) expect_exact({.ceiling_ppm = ppm, .mix = lognormal()});
}
TEST(Exactness, AShareOfKernelsOfVaryingLengthGetsItsLimit) {
  for (const std::uint32_t ppm : {250'000u, 500'000u, 750'000u, 950'000u}) {
    const model::Setup setup{.ceiling_ppm = ppm, .mix = one_function_with_a_long_tail()};
    const Figures f = measure(setup), best = ideal(f.sent_ns, setup);
    EXPECT_LE(std::abs(f.bias), 0.1);
    EXPECT_LE(f.rms_1s, 0.2);
    // One kernel of 15 ms at a window's end is 1.5 points by itself.
    EXPECT_LE(f.rms_100ms, std::max(1.0, best.rms_100ms + 0.5)) << "ideal " << best.rms_100ms;
  }
}
// One kernel is 5 % of a 100 ms window, and long launches cannot be told in advance: even an ideal gate is half a point
// off.
TEST(Exactness, AShareOf20UsAnd5MsKernelsStaysNearAnIdealGate) {
  constexpr std::uint64_t kSeeds[] = {1, 303, 404};
  for (const int processes : {1, 4})
    for (const std::uint32_t ppm : {50'000u, 250'000u, 500'000u, 750'000u, 950'000u}) {
      Figures best, f;
      for (const std::uint64_t seed : kSeeds) {
        const model::Setup setup{
            .ceiling_ppm = ppm, .mix = every_fourth_is_5_ms(), .processes = processes, .seed = seed};
        const Figures got = measure(setup), ideally = ideal(got.sent_ns, setup);
        EXPECT_LE(std::abs(got.bias), 0.15);
        best.rms_1s += ideally.rms_1s * ideally.rms_1s / std::size(kSeeds);
        best.rms_100ms += ideally.rms_100ms * ideally.rms_100ms / std::size(kSeeds);
        f.bias += got.bias / std::size(kSeeds);
        f.rms_1s += got.rms_1s * got.rms_1s / std::size(kSeeds);
        f.rms_100ms += got.rms_100ms * got.rms_100ms / std::size(kSeeds);
      }
      std::printf("%5.0f %% %dp  all: bias %+.3f  1s %.3f (ideal %.3f)  100ms %.3f (ideal %.3f)\n", ppm / 1e4,
                  processes, f.bias, std::sqrt(f.rms_1s), std::sqrt(best.rms_1s), std::sqrt(f.rms_100ms),
                  std::sqrt(best.rms_100ms));
      if (f.rms_100ms > 1.0) std::printf("        MISS\n");
      EXPECT_LE(std::abs(f.bias), 0.1);
      EXPECT_LE(std::sqrt(f.rms_1s), std::max(0.2, std::sqrt(best.rms_1s) + 0.1));
      EXPECT_LE(std::sqrt(f.rms_100ms), std::sqrt(best.rms_100ms) + 1.5);
    }
}

// Like a launch of a graph with many nodes. A driver does not tell when in the call the GPU gets the work.
TEST(Exactness, AShareWithLongLaunchCallsGetsItsLimit) {
  struct Call {
    std::int64_t length_ns, call_ns;
  };
  for (const auto [length_ns, call_ns] :
       {Call{kMs, 400 * kUs}, Call{kMs, 60 * kUs}, Call{200 * kUs, 15 * kUs}, Call{200 * kUs, 90 * kUs}})
    for (const std::int64_t rings_ns : {std::int64_t{0}, call_ns / 2, call_ns})
      for (const std::uint32_t ppm : {100'000u, 250'000u, 500'000u}) {
        std::printf("%lld us, calls of %lld us, told after %lld:\n", static_cast<long long>(length_ns / kUs),
                    static_cast<long long>(call_ns / kUs), static_cast<long long>(rings_ns / kUs));
        expect_exact(
            {.ceiling_ppm = ppm, .mix = [=](std::mt19937_64&) { return Kernel{1, length_ns, call_ns, rings_ns}; }});
      }
}

TEST(Exactness, AShareIsNotMultipliedByItsStreams) {
  for (const int streams : {4, 32})
    for (const std::uint32_t ppm : kShares)
      for (const auto& mix : {constant(20 * kUs), constant(200 * kUs), constant(kMs), lognormal()})
        expect_exact({.ceiling_ppm = ppm, .mix = mix, .streams = streams});
}
TEST(Exactness, AShareIsNotMultipliedByParallelKernels) {
  for (const int streams : {4, 32})
    expect_exact({.ceiling_ppm = 500'000, .mix = constant(200 * kUs), .streams = streams, .sms = 16});
}
TEST(Exactness, AShareIsNotMultipliedByItsProcesses) {
  for (const int processes : {2, 3, 4, 5, 6, 7, 8})
    for (const std::uint32_t ppm : kShares)
      for (const auto& mix : {constant(20 * kUs), constant(200 * kUs), constant(kMs), lognormal()})
        expect_exact({.ceiling_ppm = ppm, .mix = mix, .processes = processes});
}
// Each process maps the GPU's clock to the host's separately. The difference between maps is lost at each handover.
TEST(Exactness, AShareIsNotMultipliedWhileClocksDriftApart) {
  for (const std::int64_t drift_ppb : {-90'000, 12'000, 90'000})
    for (const auto& mix : {constant(20 * kUs), constant(200 * kUs), constant(kMs), lognormal()})
      expect_exact({.ceiling_ppm = 950'000, .mix = mix, .processes = 8, .clock_drift_ppb = drift_ppb, .seed = 404});
}
// Otherwise they would take turns of a launch or two, with as many brackets to meter.
TEST(Exactness, ProcessesOfAShareTakeTurnsWithSeveralLaunches) {
  Machine machine({.ceiling_ppm = 950'000, .mix = constant(20 * kUs), .processes = 8});
  machine.run(2 * kSecond);
  EXPECT_LE(static_cast<double>(machine.counts.records), 0.3 * static_cast<double>(machine.counts.launches));
}
TEST(Exactness, AShareIsNotMultipliedByItsThreads) {
  for (const std::uint32_t ppm : kShares)
    for (const auto& mix : {constant(20 * kUs), constant(200 * kUs), lognormal()})
      expect_exact({.ceiling_ppm = ppm, .mix = mix, .threads = 64, .streams = 64});
}
TEST(Exactness, ALoadedMachineCostsNoTimeUpToHalfAGpu) {
  for (const std::uint32_t ppm : {50'000u, 100'000u, 250'000u, 500'000u})
    for (const auto& mix : {constant(20 * kUs), constant(200 * kUs), constant(kMs), lognormal()})
      expect_exact({.ceiling_ppm = ppm, .mix = mix, .lateness = stalling_lateness()});
}
// More is lost than can be caught up: docs/decisions/catch-up-window.md. Half a point goes to the shorter delays of
// each wake-up. With a mix, 1 ms sent ahead by the estimates may be much less in fact, and its settler wakes up late
// too.
TEST(Exactness, ALargeShareLosesOnlyIdleTimeUnderLoad) {
  const auto expect_judged = [](const Figures& f) {
    EXPECT_LE(std::abs(f.bias), 0.1);
    EXPECT_LE(f.rms_1s, 0.2);
    EXPECT_LE(f.rms_100ms, 1.0);
  };
  for (const std::uint32_t ppm : {750'000u, 950'000u}) {
    for (const auto& mix : {constant(20 * kUs), constant(200 * kUs), constant(kMs)})
      expect_judged(judge_loaded({.ceiling_ppm = ppm, .mix = mix, .lateness = stalling_lateness()}, 0.5));
    expect_judged(judge_loaded({.ceiling_ppm = ppm, .mix = lognormal(), .lateness = stalling_lateness()}, 3.5));
  }
}
// Work sent meanwhile must not stay in brackets charged by estimates: estimates that are once too low stay too low.
TEST(Exactness, AStoppedSettlerKeepsTheLimit) {
  for (const std::uint32_t ppm : {500'000u, 750'000u, 950'000u})
    for (const auto& mix : {constant(200 * kUs), lognormal(), one_function_with_a_long_tail()}) {
      Machine machine({.ceiling_ppm = ppm, .mix = mix, .settler_stall_ns = 150 * kMs});
      machine.run(4 * kSecond);
      EXPECT_LE(machine.held_percent(2 * kSecond, 4 * kSecond), ppm / 1e4 + 0.5);
    }
}
TEST(Exactness, ChargesFollowTheTruthAtEveryInstant) {
  for (const std::uint32_t ppm : {50'000u, 500'000u, 950'000u})
    for (const auto& mix : {constant(20 * kUs), constant(200 * kUs), constant(kMs)}) {
      Machine machine({.ceiling_ppm = ppm, .mix = mix});
      for (std::int64_t at = 100 * kMs; at <= kSecond; at += 7'300 * kUs) {
        machine.run(at);
        const std::int64_t truth = machine.truth_ns();
        const auto measured = static_cast<std::int64_t>(machine.account.held_ns.load());
        const auto estimated = static_cast<std::int64_t>(machine.account.estimated_ns.load());
        ASSERT_GE(machine.charged_ns(), truth - kQuantumNs) << ppm << " at " << at;
        ASSERT_LE(measured - truth, kQuantumNs + estimated) << ppm << " at " << at;
      }
    }
}
// While it runs, its bits drop out of the ring of charged time.
TEST(Exactness, AKernelLongerThanTheRingIsChargedOnce) {
  const auto one_short = [n = 0](std::mt19937_64&) mutable { return Kernel{1, n++ == 0 ? kMs : 300 * kMs}; };
  Machine machine({.ceiling_ppm = 500'000, .mix = one_short, .launch_every_ns = 700 * kMs});
  machine.run(3'400 * kMs);
  EXPECT_EQ(machine.counts.launches, 5u);
  EXPECT_NEAR(static_cast<double>(machine.account.held_ns.load()), 1e6 + 4 * 300e6, 1e5);
}
TEST(Exactness, AFirstKernelIsChargedWhileItRuns) {
  Machine machine({.ceiling_ppm = 500'000, .mix = constant(kSecond)});
  for (std::int64_t at = 10 * kMs; at < 900 * kMs; at += 10 * kMs) {
    machine.run(at);
    ASSERT_NEAR(static_cast<double>(machine.account.held_ns.load()), static_cast<double>(machine.truth_ns()),
                static_cast<double>(kSeenLateNs));
  }
}
TEST(Exactness, DenseBracketsCostAtMostOneAndAHalfQueries) {
  for (const std::uint32_t ppm : kShares) {
    Machine machine({.ceiling_ppm = ppm, .mix = constant(20 * kUs)});
    machine.run(2 * kSecond);
    EXPECT_LE(static_cast<double>(machine.counts.queries), 1.5 * static_cast<double>(machine.counts.records) / 2)
        << ppm;
  }
}
TEST(Exactness, SixtyFourThreadsSendNoMoreAheadThanOne) {
  for (const std::uint32_t ppm : kShares)
    for (const auto& mix : {constant(20 * kUs), constant(200 * kUs), constant(kMs)}) {
      Machine machine({.ceiling_ppm = ppm, .mix = mix, .threads = 64, .streams = 64});
      machine.run(kSecond);
      EXPECT_LE(machine.most_ahead_ns, kLeadNs) << ppm;
    }
}
TEST(Exactness, AChangedLimitHoldsAfter20Ms) {
  for (const std::int64_t kernel : {20 * kUs, 200 * kUs}) {
    Machine machine({.ceiling_ppm = 200'000, .mix = constant(kernel)});
    std::int64_t at = 200 * kMs;
    machine.run(at);
    double sum[2] = {};
    for (int change = 0; change < 50; ++change) {
      machine.ceiling_ppm = change % 2 == 0 ? 800'000 : 200'000;
      machine.run(at + 120 * kMs);
      sum[change % 2] += machine.held_percent(at + 20 * kMs, at + 120 * kMs);
      at += 120 * kMs;
    }
    std::printf("change, %ld us kernels: 80 %% -> %.3f, 20 %% -> %.3f\n", static_cast<long>(kernel / kUs), sum[0] / 25,
                sum[1] / 25);
    EXPECT_NEAR(sum[0] / 25, 80.0, 1.0);
    EXPECT_NEAR(sum[1] / 25, 20.0, 1.0);
  }
}
// A 20 ms kernel causes 400 ms of waiting at 5 %, and 21 ms at 95 %.
TEST(Exactness, DebtOfALowLimitDoesNotOutlastARaisedOne) {
  for (const std::int64_t kernel : {200 * kUs, 5 * kMs, 20 * kMs}) {
    Machine machine({.ceiling_ppm = 50'000, .mix = constant(kernel)});
    machine.run(3'030 * kMs);
    machine.ceiling_ppm = 950'000;
    machine.run(5'130 * kMs);
    const double held = machine.held_percent(3'130 * kMs, 5'130 * kMs);
    std::printf("%3ld us kernels, 5 %% -> 95 %%: %.2f from 100 ms on\n", static_cast<long>(kernel / kUs), held);
    EXPECT_NEAR(held, 95.0, 2.5);
  }
}
TEST(Exactness, ALoweredLimitPricesUnpaidTime) {
  Machine machine({.ceiling_ppm = 950'000, .mix = constant(20 * kMs)});
  machine.run(2 * kSecond);
  machine.ceiling_ppm = 50'000;
  machine.run(6 * kSecond);
  EXPECT_NEAR(machine.held_percent(2 * kSecond, 6 * kSecond), 5.0, 1.0);
}
TEST(Exactness, KernelsThatWaitForEachOtherMeetAtEveryLimit) {
  for (const int processes : {1, 2})
    for (std::uint32_t ppm = 50'000; ppm <= 1'000'000; ppm += 50'000) {
      Machine machine({.ceiling_ppm = ppm,
                       .mix = constant(200 * kUs),
                       .processes = processes,
                       .threads = 2,
                       .streams = 2,
                       .sms = 16,
                       .spin = true});
      machine.run(kSecond);
      EXPECT_TRUE(machine.met) << ppm << " ppm, " << processes << " processes, launches " << machine.counts.launches
                               << ", in debt " << machine.account.passed_in_debt.load();
    }
}
// Queued far ahead on one stream. Until their length is known, one passes each 20 ms; that is paid back.
TEST(Exactness, KernelsLongerThanTheGatesPatienceAreHeld) {
  for (const std::int64_t kernel : {30 * kMs, 100 * kMs, 300 * kMs})
    for (const std::uint32_t ppm : {100'000u, 250'000u, 500'000u, 750'000u}) {
      Machine machine({.ceiling_ppm = ppm, .mix = constant(kernel)});
      machine.run(260 * kSecond);
      const double asked = ppm / 1e4, held = machine.held_percent(200 * kSecond, 260 * kSecond);
      std::printf("%3ld ms %3.0f %%: %+.2f, passed in debt %lu\n", static_cast<long>(kernel / kMs), asked, held - asked,
                  machine.account.passed_in_debt.load());
      EXPECT_NEAR(held, asked, 1.0);
    }
}
// About fifty are sent before the first has ended and their length is known. They are paid back; then it is exact.
TEST(Exactness, KernelsOfSecondsAreHeldOnceTheirLengthIsKnown) {
  for (const std::int64_t kernel : {kSecond, 2 * kSecond})
    for (const std::uint32_t ppm : {250'000u, 500'000u}) {
      Machine machine({.ceiling_ppm = ppm, .mix = constant(kernel)});
      machine.run(1440 * kSecond);
      const double asked = ppm / 1e4, held = machine.held_percent(1392 * kSecond, 1440 * kSecond);
      std::printf("%3ld s %3.0f %%: %+.2f, passed in debt %lu\n", static_cast<long>(kernel / kSecond), asked,
                  held - asked, machine.account.passed_in_debt.load());
      EXPECT_NEAR(held, asked, 1.0);
    }
}
// The same on several streams and by several processes: what runs as long as it should waits for none of them. What
// passed before kernels of a second were measured has to be paid first: 70 of eight processes, by second 900 at 8 %.
TEST(Exactness, HoldsLongKernelsBesideEachOther) {
  for (const std::int64_t kernel : {30 * kMs, 200 * kMs, kSecond})
    for (const std::uint32_t ppm : {80'000u, 250'000u, 480'000u, 750'000u})
      for (const auto& [streams, processes] : {std::pair{2, 1}, {4, 1}, {1, 2}, {1, 8}}) {
        Machine machine({.ceiling_ppm = ppm,
                         .mix = constant(kernel),
                         .processes = processes,
                         .threads = streams,
                         .streams = streams});
        const auto held_ns = [&] {
          std::uint64_t sum_ns = 0;
          for (const sim::Account& each : machine.state->accounts) sum_ns += each.used != 0 ? each.held_ns : 0;
          return static_cast<double>(sum_ns);
        };
        const bool seconds = kernel == kSecond;
        const std::int64_t paid_by_s = seconds ? (ppm == 80'000 && processes == 8 ? 900 : 350) : 100;
        const std::int64_t from_ns = paid_by_s * kSecond, span_ns = (seconds ? 300 : 60) * kSecond;
        machine.run(from_ns);
        const double before_ns = held_ns();
        machine.run(from_ns + span_ns);
        const double asked = ppm / 1e4, held = 100 * (held_ns() - before_ns) / static_cast<double>(span_ns);
        std::printf("%d streams, %d processes, %4ld ms %3.0f %%: %+.2f, passed in debt %lu\n", streams, processes,
                    static_cast<long>(kernel / kMs), asked, held - asked, machine.account.passed_in_debt.load());
        EXPECT_NEAR(held, asked, 0.5);
      }
}

TEST(Exactness, LaunchBound3UsKernelsAreEstimatedWithin2Points) {
  for (const std::uint32_t ppm : {50'000u, 250'000u, 500'000u}) {
    const Figures f = measure({.ceiling_ppm = ppm, .mix = constant(3 * kUs), .launch_every_ns = 5 * kUs});
    EXPECT_LE(std::abs(f.bias), 2.0);
  }
}

}  // namespace
}  // namespace headgate::limiter::model
