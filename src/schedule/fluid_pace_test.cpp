// Long kernels start no earlier than in a fluid system with the same rule.
#include <gtest/gtest.h>

#include "schedule/test_gpus.hpp"

namespace headgate::schedule {
namespace {

// A share of 100 ms kernels next to one that always wants the GPU.
struct LongBesideShort {
  explicit LongBesideShort(Terms long_terms = {}, Terms short_terms = {})
      : heavy(gpus.add({long_terms})), light(gpus.add({short_terms})) {
    gpus.uses[{heavy, 0}].kernel_ns = 100 * kMs;
    gpus.uses[{light, 0}].kernel_ns = 200 * kUs;
  }
  // The share with the GPU works; a kernel runs to its end. Returns how many kernels the heavy share started in `ms`.
  int play(int ms) {
    int began = 0;
    for (int i = 0; i < ms; ++i, at_ns += kMs) {
      Use& use = gpus.uses[{heavy, 0}];
      const bool open = gpus.gate(heavy) == Gate::open;
      if (left_ns == 0 && open) left_ns = 100 * kMs, ++began;
      const bool light_runs = gpus.gate(light) == Gate::open;
      // Next to the other's turn a kernel has half of the time slices.
      const std::int64_t had_ns = left_ns == 0 ? 0 : std::min(left_ns, light_runs ? kMs / 2 : kMs);
      left_ns -= had_ns;
      use.held_ns += had_ns;
      use.in_flight_ns = left_ns;
      use.wanting = true;
      ++use.requests;
      Use& other = gpus.uses[{light, 0}];
      if (light_runs) other.held_ns += kMs - had_ns;
      light_runs ? gpus.run(light, kMs / 4) : gpus.want(light);
      wake_at_ns = gpus.decide(at_ns).wake_at_ns;
    }
    return began;
  }
  std::int64_t held_ns() { return gpus.uses[{heavy, 0}].held_ns; }

  Gpus gpus;
  ShareId heavy, light;
  std::int64_t at_ns = kMs, left_ns = 0, wake_at_ns = 0;
};

TEST(FluidPace, LongKernelsGetTheirWeightPlusOneKernel) {
  LongBesideShort two({.weight = 10}, {.weight = 90});
  two.play(5'000);
  EXPECT_LE(two.held_ns(), 600 * kMs);
  EXPECT_GE(two.held_ns(), 400 * kMs);
}
TEST(FluidPace, FullPromisesLeaveNothing) {
  LongBesideShort two({}, {.guarantee_ppm = 1'000'000});
  two.play(5'000);
  EXPECT_LE(two.held_ns(), 100 * kMs);
}
TEST(FluidPace, LongKernelsGetTheirPromise) {
  LongBesideShort two({.weight = 1, .guarantee_ppm = 700'000}, {.weight = 1'000});
  two.play(5'000);
  EXPECT_NEAR(static_cast<double>(two.held_ns()), 3'500.0 * kMs, 250.0 * kMs);
}
TEST(FluidPace, ALoneShareStartsAtAnyTime) {
  LongBesideShort two;
  two.play(300);
  for (int i = 0; i < 100; ++i) {
    two.gpus.rest(two.light), two.gpus.run(two.heavy, 100 * kMs);
    two.gpus.decide(two.at_ns += kMs);
  }
  EXPECT_NE(two.gpus.gate(two.heavy), Gate::shut);
  EXPECT_NE(two.gpus.gate(two.heavy), Gate::queued);
}
TEST(FluidPace, ShortKernelsAreNotDelayed) {
  LongBesideShort two;
  two.gpus.uses[{two.heavy, 0}].kernel_ns = 5 * kMs;
  EXPECT_GE(two.play(2'000), 8);
}
TEST(FluidPace, AnEndlessKernelDoesNotDelayTheNextAtItsGate) {
  LongBesideShort two;
  for (int i = 0; i < 400; ++i) {  // it may wait for the launch at the gate
    Use& use = two.gpus.uses[{two.heavy, 0}];
    use.held_ns += kMs / 2;
    use.in_flight_ns = std::max<std::int64_t>(kOverdueReportNs, 100 * kMs - i * kMs);
    use.wanting = true;
    two.gpus.want(two.light);
    two.gpus.decide(two.at_ns += kMs);
  }
  bool opens = false;
  for (int i = 0; i < 100; ++i) {
    two.gpus.decide(two.at_ns += kMs);
    opens |= two.gpus.gate(two.heavy) == Gate::open;
  }
  EXPECT_TRUE(opens);
}
// However much it had.
TEST(FluidPace, AnEndlessKernelIsNotEarly) {
  LongBesideShort two;
  for (int i = 0; i < 400; ++i) {
    Use& use = two.gpus.uses[{two.heavy, 0}];
    use.held_ns += kMs;
    use.in_flight_ns = std::max<std::int64_t>(kOverdueReportNs, 100 * kMs - i * kMs);
    use.wanting = true;
    two.gpus.want(two.light);
    two.gpus.decide(two.at_ns += kMs);
    if (i == 150) {
      EXPECT_EQ(two.gpus.gate(two.heavy), Gate::shut);
    }
  }
  EXPECT_EQ(two.gpus.gate(two.heavy), Gate::queued);
}

// Idle time of a share alone is its own affair.
TEST(FluidPace, NoShareIsBehindWhileItIsAlone) {
  LongBesideShort two;
  two.gpus.rest(two.light);
  for (int i = 0; i < 500; ++i) {
    two.gpus.run(two.heavy, 100 * kMs);
    two.gpus.uses[{two.heavy, 0}].held_ns += kMs / 10;
    two.gpus.decide(two.at_ns += kMs);
  }
  EXPECT_EQ(two.gpus.arbiter.behind_ns(two.heavy, 0), 0);
}

TEST(FluidPace, PromisesBeyondTheGpuShrink) {
  LongBesideShort two({.guarantee_ppm = 1'000'000}, {.guarantee_ppm = 1'000'000});
  two.play(5'000);
  EXPECT_NEAR(static_cast<double>(two.held_ns()), 2'500.0 * kMs, 250.0 * kMs);
}

// By one kernel at most.
TEST(FluidPace, TellsHowFarALongKernelPutAShareBehind) {
  LongBesideShort two({.weight = 1}, {.weight = 1, .guarantee_ppm = 800'000});
  two.gpus.uses[{two.heavy, 0}].kernel_ns = 400 * kMs;
  std::int64_t most_ns = 0;
  for (int i = 0; i < 2'000; ++i) {
    two.play(1);
    most_ns = std::max(most_ns, two.gpus.arbiter.behind_ns(two.light, 0));
    EXPECT_EQ(two.gpus.arbiter.behind_ns(two.heavy, 0), 0);
  }
  EXPECT_GT(most_ns, 20 * kMs);
  EXPECT_LE(most_ns, 400 * kMs);
}
TEST(FluidPace, ALongKernelPutsAShareBehindUntilItPauses) {
  LongBesideShort two({}, {.guarantee_ppm = 800'000});
  two.gpus.uses[{two.heavy, 0}].kernel_ns = 1'000 * kMs;
  const auto behind_ns = [&](int looks) {
    for (int i = 0; i < looks; ++i) {
      for (const ShareId share : {two.heavy, two.light}) {
        two.gpus.uses[{share, 0}].held_ns += kMs / 2;
        two.gpus.run(share, 1'000 * kMs);
      }
      two.gpus.decide(two.at_ns += kMs);
    }
    return two.gpus.arbiter.behind_ns(two.light, 0);
  };
  EXPECT_GT(behind_ns(1'000), 2 * kWindowNs);
  EXPECT_EQ(behind_ns(5'000), 1'000 * kMs) << "by one kernel at most";
  two.gpus.rest(two.light);
  for (int i = 0; i < 12; ++i) two.gpus.decide(two.at_ns += kMs);
  EXPECT_LE(two.gpus.arbiter.behind_ns(two.light, 0), kWindowNs);
}
TEST(FluidPace, AShareThatPausesBetweenItsKernelsIsNotFarBehind) {
  LongBesideShort two({}, {.guarantee_ppm = 800'000});
  two.gpus.uses[{two.heavy, 0}].kernel_ns = 1'000 * kMs;
  for (int i = 0; i < 1'000; ++i) {
    Use& sparse = two.gpus.uses[{two.light, 0}];
    sparse.dry_ns = two.at_ns / 5;  // 200 us kernels, 50 us pauses
    sparse.dry_spells = static_cast<std::uint64_t>(two.at_ns / (250 * kUs));
    for (const ShareId share : {two.heavy, two.light}) {
      two.gpus.uses[{share, 0}].held_ns += kMs / 2;
      two.gpus.run(share, 1'000 * kMs);
    }
    two.gpus.decide(two.at_ns += kMs);
  }
  EXPECT_GT(two.gpus.arbiter.behind_ns(two.light, 0), 0);
  EXPECT_LE(two.gpus.arbiter.behind_ns(two.light, 0), kWindowNs);
}

}  // namespace
}  // namespace headgate::schedule
