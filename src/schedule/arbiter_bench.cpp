#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "schedule/arbiter.hpp"

namespace headgate::schedule {
namespace {

// Measures one wake-up with all shares registered and `state.range(0)` at work: every share observed, turns settled, a
// decision. The percentile is over all iterations.
void a_decision_among_64_shares(benchmark::State& state) {
  Arbiter arbiter(1);
  std::vector<ShareId> shares;
  for (int i = 0; i < 64; ++i) shares.push_back(arbiter.add_share({.gpus = {Terms{}}}));
  std::int64_t now_ns = 1'000'000'000;
  std::vector<Use> uses(shares.size());
  std::vector<double> took_us;
  took_us.reserve(1 << 20);
  ShareId holder = 0;
  for ([[maybe_unused]] auto _ : state) {
    const auto before = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < shares.size(); ++i) {
      uses[i].wanting = static_cast<std::int64_t>(i) < state.range(0) && shares[i] != holder;
      uses[i].in_flight_ns = shares[i] == holder ? 500'000 : 0;
      arbiter.observe(shares[i], 0, uses[i], now_ns);
    }
    while (const auto turn = arbiter.next_turn(now_ns)) arbiter.settle(*turn, 10'000);
    const Decision decision = arbiter.decide(now_ns);
    for (const Change& change : decision.changes)
      if (change.gate == Gate::open) holder = change.share;
    const std::int64_t step_ns = std::clamp<std::int64_t>(decision.wake_at_ns - now_ns, 20'000, 2'000'000);
    uses[holder].held_ns += step_ns;
    now_ns += step_ns;
    const auto after = std::chrono::steady_clock::now();
    if (took_us.size() < took_us.capacity())
      took_us.push_back(std::chrono::duration<double, std::micro>(after - before).count());
  }
  std::ranges::sort(took_us);
  state.counters["p99_us"] = took_us[took_us.size() * 99 / 100];
}
BENCHMARK(a_decision_among_64_shares)->Arg(2)->Arg(8)->Arg(64);

}  // namespace
}  // namespace headgate::schedule

BENCHMARK_MAIN();
