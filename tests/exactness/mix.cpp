#include "exactness/mix.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <utility>

namespace headgate::limiter::model {
namespace {

constexpr std::int64_t kUs = 1'000, kMs = 1'000'000, kSecond = 1'000'000'000;
// With shorter pauses, or less work in between, the time of the next request depends on the turns of others.
constexpr std::int64_t kMinGapNs = 20 * kMs, kMinWorkNs = kMs;
// If less is in flight while a process waits for its oldest launch, its wake-ups dominate the result.
constexpr std::int64_t kMinAheadNs = 500 * kUs;
constexpr std::int64_t kLongNs = 20 * kMs;
// How far back accounts tell.
constexpr std::int64_t kTruthsNs = 60 * kMs, kTruthStepNs = 500 * kUs;
// At a change, a beginning or an end, turns and work in flight are in an arbitrary state.
constexpr double kPointsAChange = 0.15;

// Returns the share with its behaviour on that GPU applied to all.
MixShare on_gpu(const MixShare& share, std::uint32_t gpu) {
  MixShare there = share;
  if (gpu == share.other_gpu) there.kernel_ns = share.other_kernel_ns, there.load = share.other_load;
  return there;
}

std::int64_t command_ns(const MixShare& share) { return share.kernel_ns * share.load.nodes; }

void allow_for_slices(Mix& mix) {
  if (std::ranges::any_of(mix.shares, [](const MixShare& each) { return command_ns(each) > kLongNs; }))
    mix.account_points = mix.sum_points = kSlicedAccountPoints;
}

bool is_judged(const MixShare& share) {
  const Load& load = share.load;
  if (load.depth != 0) return (load.depth - 1) * command_ns(share) >= kMinAheadNs;
  if (load.batch == 0) return true;
  const std::int64_t work_ns = load.batch * command_ns(share);
  const std::int64_t gap_ns = load.every_ns != 0 ? load.every_ns - work_ns : load.gap_ns;
  return gap_ns >= kMinGapNs && work_ns >= kMinWorkNs;
}

// A share that is not judged is modelled as always wanting the GPU: unused time in its turns is charged to it.
Demand demand_of(const MixShare& share) {
  Demand demand{.from_ns = share.load.from_ns, .until_ns = share.load.until_ns};
  if (share.load.batch == 0 || !is_judged(share)) return demand;
  demand.work_ns = share.load.batch * command_ns(share);
  demand.gap_ns = share.load.gap_ns;
  demand.every_ns = share.load.every_ns;
  return demand;
}

// How much a share wants whose several processes pause depends on the order in which they are served, which the rule
// leaves open. Served side by side they end together, and all pause at once. Served one after another they want this
// part of the GPU all the time: each works, alone, and pauses.
bool depends_on_order(const MixShare& share) {
  return share.processes > 1 && share.load.gap_ns != 0 && is_judged(share);
}
double part_in_turn(const MixShare& share) {
  const auto work_ns = static_cast<double>(share.load.batch * command_ns(share));
  return share.processes * work_ns / (work_ns + static_cast<double>(share.load.gap_ns));
}

double part_of(std::uint32_t ppm) { return static_cast<double>(ppm) / ledger::kWholeGpu; }

Claim claim_of(std::uint32_t promise_ppm, std::uint32_t weight, std::uint32_t ceiling_ppm) {
  return {.promise = part_of(promise_ppm), .weight = static_cast<double>(weight), .ceiling = part_of(ceiling_ppm)};
}

std::vector<schedule::Terms> terms_of(std::uint32_t gpus, std::uint32_t promise_ppm, std::uint32_t weight) {
  std::vector<schedule::Terms> terms;
  for (std::uint32_t g = 0; g < 32; ++g)
    if ((gpus >> g & 1) != 0) terms.push_back({.gpu = g, .weight = weight, .guarantee_ppm = promise_ppm});
  return terms;
}

NodeShare node_share(const MixShare& share) {
  NodeShare made{.gpus = terms_of(share.gpus, share.promise_ppm, share.weight),
                 .load = share.load,
                 .processes = share.processes,
                 .ceiling_ppm = share.ceiling_ppm};
  made.load.mix = constant(share.kernel_ns);
  if (share.other_gpu != ~0u) {
    made.other_gpu = share.other_gpu;
    made.other_load = share.other_load;
    made.other_load.mix = constant(share.other_kernel_ns);
  }
  return made;
}

std::string ms(std::int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%gms", static_cast<double>(ns) / 1e6);
  return text;
}

class Judge {
 public:
  explicit Judge(const Mix& mix) : mix_(mix), node_(setup_of(mix)) {
    for (std::uint32_t g = 0; g < mix.gpus; ++g) {
      std::vector<FluidShare> together, in_turn;
      for (const MixShare& each : mix.shares) {
        const MixShare share = on_gpu(each, g);
        FluidShare made{.claim = claim_of(share.promise_ppm, share.weight, share.ceiling_ppm)};
        if ((share.gpus >> g & 1) != 0)
          made.processes.assign(static_cast<std::size_t>(share.processes), demand_of(share));
        together.push_back(made);
        if (depends_on_order(share)) {
          made.claim.ceiling = std::min(made.claim.ceiling, part_in_turn(share));
          for (Demand& demand : made.processes) demand.work_ns = 0;
        }
        in_turn.push_back(std::move(made));
      }
      together_.emplace_back(std::move(together));
      in_turn_.emplace_back(std::move(in_turn));
    }
  }

  Outcome run() {
    std::size_t next = 0;
    for (const Mix& mix = mix_; const MixShare& share : mix.shares)
      for (std::uint32_t g = 0; g < mix.gpus; ++g)
        if ((share.gpus >> g & 1) != 0)
          outcome_.parts.push_back({.share = static_cast<std::size_t>(&share - mix.shares.data()), .gpu = g});
    run_to(mix_.from_ns, next);
    node_.mark();
    const std::vector<double> before = fluid_ns(together_), before_in_turn = fluid_ns(in_turn_);
    const std::vector<Reading> first = read_accounts();
    std::vector<Reading> last = first;
    for (std::int64_t at_ns = mix_.from_ns; at_ns < mix_.until_ns; at_ns += kSecond) {
      run_to(std::min(at_ns + kSecond, mix_.until_ns), next);
      const std::vector<Reading> from = std::exchange(last, read_accounts());
      if (at_ns + kSecond <= mix_.until_ns) judge_accounts(from, last, at_ns);
    }
    judge_parts(before, before_in_turn);
    for (std::size_t i = 0; i < outcome_.parts.size(); ++i)
      outcome_.parts[i].account = account_percent(first[i], last[i]);
    return std::move(outcome_);
  }

 private:
  static NodeSetup setup_of(const Mix& mix) {
    NodeSetup setup{
        .shares = {}, .gpus = mix.gpus, .seed = mix.seed, .slice_ns = mix.slice_ns, .switch_ns = mix.switch_ns};
    for (const MixShare& share : mix.shares) setup.shares.push_back(node_share(share));
    return setup;
  }

  void run_to(std::int64_t to_ns, std::size_t& next) {
    for (; next < mix_.changes.size() && mix_.changes[next].at_ns <= to_ns; ++next) {
      advance(mix_.changes[next].at_ns);
      apply(mix_.changes[next]);
    }
    advance(to_ns);
  }
  void advance(std::int64_t to_ns) {
    for (std::int64_t at_ns = to_ns - kTruthsNs; at_ns < to_ns; at_ns += kTruthStepNs) note_truth(at_ns);
    note_truth(to_ns);
    std::erase_if(truths_, [to_ns](const auto& each) { return each.first < to_ns - kTruthsNs; });
    for (std::vector<Fluid>* fluids : {&together_, &in_turn_})
      for (Fluid& fluid : *fluids) fluid.run(to_ns);
  }
  void apply(const Change& change) {
    switch (change.kind) {
      case Change::Kind::restart: return node_.restart_arbiter();
      case Change::Kind::kill: {
        const std::uint32_t gpu = node_.kill(change.share);
        if (gpu < mix_.gpus) together_[gpu].end_process(change.share), in_turn_[gpu].end_process(change.share);
        return;
      }
      case Change::Kind::pause:
      case Change::Kind::resume: {
        const bool paused = change.kind == Change::Kind::pause;
        for (std::uint32_t g = 0; g < mix_.gpus; ++g)
          together_[g].share(change.share).paused = in_turn_[g].share(change.share).paused = paused;
        return node_.pause(change.share, paused);
      }
      case Change::Kind::terms:
        for (std::uint32_t g = 0; g < mix_.gpus; ++g) {
          Claim claim = claim_of(change.promise_ppm, change.weight, change.ceiling_ppm);
          together_[g].share(change.share).claim = claim;
          const MixShare share = on_gpu(mix_.shares[change.share], g);
          if (depends_on_order(share)) claim.ceiling = std::min(claim.ceiling, part_in_turn(share));
          in_turn_[g].share(change.share).claim = claim;
        }
        return node_.change(change.share, terms_of(mix_.shares[change.share].gpus, change.promise_ppm, change.weight),
                            change.ceiling_ppm);
    }
  }

  std::vector<double> fluid_ns(std::span<const Fluid> fluids) const {
    std::vector<double> all;
    for (std::size_t s = 0; s < mix_.shares.size(); ++s)
      for (std::uint32_t g = 0; g < mix_.gpus; ++g)
        if ((mix_.shares[s].gpus >> g & 1) != 0) all.push_back(fluids[g].had_ns(s));
    return all;
  }

  // What an account tells, and what its share had until that moment.
  struct Reading {
    ledger::HeldTime told;
    double held_ns = 0;
  };
  static double percent(double ns, const Reading& from, const Reading& to) {
    return 100 * ns / static_cast<double>(to.told.until_ns - from.told.until_ns);
  }
  static double account_percent(const Reading& from, const Reading& to) {
    return percent(static_cast<double>(to.told.held_ns - from.told.held_ns), from, to);
  }

  void note_truth(std::int64_t at_ns) {
    if (at_ns <= 0 || (!truths_.empty() && at_ns <= truths_.back().first)) return;
    node_.run(at_ns);
    std::vector<std::int64_t>& held = truths_.emplace_back(at_ns, std::vector<std::int64_t>()).second;
    for (const Part& part : outcome_.parts) held.push_back(node_.held_ns(part.share, part.gpu));
  }
  // Returns what a part's share had until then, between two notes in proportion.
  double truth_ns(std::size_t part, std::int64_t until_ns) const {
    std::size_t after = 1;
    while (after + 1 < truths_.size() && truths_[after].first < until_ns) ++after;
    const auto& [from_ns, from] = truths_[after - 1];
    const auto& [to_ns, to] = truths_[after];
    const double along = static_cast<double>(until_ns - from_ns) / static_cast<double>(to_ns - from_ns);
    return std::lerp(static_cast<double>(from[part]), static_cast<double>(to[part]), along);
  }
  std::vector<Reading> read_accounts() const {
    std::vector<Reading> all;
    for (std::size_t i = 0; i < outcome_.parts.size(); ++i) {
      const ledger::HeldTime told = node_.account(outcome_.parts[i].share, outcome_.parts[i].gpu);
      all.push_back({told, truth_ns(i, told.until_ns)});
    }
    return all;
  }

  void judge_accounts(std::span<const Reading> from, std::span<const Reading> to, std::int64_t at_ns) {
    std::vector<double> sums(mix_.gpus);
    for (std::size_t i = 0; i < from.size(); ++i) {
      const double had = percent(to[i].held_ns - from[i].held_ns, from[i], to[i]);
      const double account = account_percent(from[i], to[i]);
      sums[outcome_.parts[i].gpu] += account - had;
      if (std::abs(had - account) > mix_.account_points)
        say("share %zu on GPU %u: account %.2f, had %.2f in the second from %.0f", outcome_.parts[i].share,
            outcome_.parts[i].gpu, account, had, static_cast<double>(at_ns) / kSecond);
    }
    for (std::uint32_t g = 0; g < mix_.gpus; ++g)
      if (sums[g] > mix_.sum_points)
        say("GPU %u: accounts together are %.2f too large in the second from %.0f", g, sums[g],
            static_cast<double>(at_ns) / kSecond);
  }

  void judge_parts(std::span<const double> before, std::span<const double> before_in_turn) {
    const std::vector<double> after = fluid_ns(together_), after_in_turn = fluid_ns(in_turn_);
    const auto span_ns = static_cast<double>(mix_.until_ns - mix_.from_ns);
    double moves = static_cast<double>(mix_.changes.size());
    for (const MixShare& share : mix_.shares)
      moves += (share.load.from_ns > mix_.from_ns) + (share.load.until_ns < mix_.until_ns);
    for (std::uint32_t g = 0; g < mix_.gpus; ++g) outcome_.idle.push_back(100 - node_.used_percent(g));
    for (std::size_t i = 0; i < outcome_.parts.size(); ++i) {
      Part& part = outcome_.parts[i];
      const MixShare& share = mix_.shares[part.share];
      part.had = node_.held_percent(part.share, part.gpu);
      // The order is the arbiter's choice, so a share is due the less of both.
      part.due = 100 * std::min(after[i] - before[i], after_in_turn[i] - before_in_turn[i]) / span_ns;
      part.judged = is_judged(on_gpu(share, part.gpu));
      part.allowed = mix_.points + kPointsAChange * moves + 100 * in_flight_ns(part) / span_ns;
      if (part.judged && part.had < part.due - part.allowed)
        say("share %zu on GPU %u: had %.2f, due %.2f (%.2f less are allowed)", part.share, part.gpu, part.had, part.due,
            part.allowed);
      // Work sent before its kernels were measured counts as in flight.
      if (const double ceiling = 100 * part_of(highest_ceiling_ppm(part.share)); part.had > ceiling + part.allowed)
        say("share %zu on GPU %u: had %.2f, ceiling %.2f (%.2f more are allowed)", part.share, part.gpu, part.had,
            ceiling, part.allowed);
    }
  }

  std::uint32_t highest_ceiling_ppm(std::size_t share) const {
    std::uint32_t ppm = mix_.shares[share].ceiling_ppm;
    for (const Change& change : mix_.changes)
      if (change.kind == Change::Kind::terms && change.share == share) ppm = std::max(ppm, change.ceiling_ppm);
    return ppm;
  }

  // For kernels longer than 20 ms: one per process on that GPU.
  double in_flight_ns(const Part& part) const {
    double sum_ns = 0;
    for (const MixShare& each : mix_.shares)
      if (const MixShare share = on_gpu(each, part.gpu);
          (share.gpus >> part.gpu & 1) != 0 && command_ns(share) > kLongNs)
        sum_ns += static_cast<double>(share.processes * command_ns(share));
    return sum_ns;
  }

  template <typename... Arguments>
  void say(const char* format, Arguments... arguments) {
    char text[200];
    std::snprintf(text, sizeof text, format, arguments...);
    outcome_.broken.emplace_back(text);
  }

  const Mix& mix_;
  Node node_;
  std::vector<std::pair<std::int64_t, std::vector<std::int64_t>>> truths_;  // what each part had, before now
  std::vector<Fluid> together_, in_turn_;  // by GPU: the processes of each share are served side by side, or in turn
  Outcome outcome_;
};

}  // namespace

Outcome run(const Mix& mix) { return Judge(mix).run(); }

std::string describe(const Mix& mix) {
  std::string text;
  char line[300];
  for (std::size_t s = 0; s < mix.shares.size(); ++s) {
    const MixShare& share = mix.shares[s];
    const Load& load = share.load;
    std::snprintf(line, sizeof line, "  share %zu: gpus 0x%x promise %.1f%% weight %u ceiling %.1f%%; %d x %s kernels",
                  s, share.gpus, share.promise_ppm / 1e4, share.weight, share.ceiling_ppm / 1e4, share.processes,
                  ms(share.kernel_ns).c_str());
    text += line;
    if (load.nodes > 1) text += ", graphs of " + std::to_string(load.nodes);
    if (load.streams > 1) text += ", " + std::to_string(load.streams) + " streams";
    if (load.depth != 0) text += ", depth " + std::to_string(load.depth);
    if (load.batch != 0) text += ", batches of " + std::to_string(load.batch);
    if (load.every_ns != 0) text += " each " + ms(load.every_ns);
    if (load.gap_ns != 0) text += ", pauses of " + ms(load.gap_ns);
    if (load.from_ns != 0) text += ", from " + ms(load.from_ns);
    if (load.until_ns < mix.until_ns) text += ", until " + ms(load.until_ns);
    text += '\n';
  }
  for (const Change& change : mix.changes) {
    constexpr const char* kKinds[] = {"kill", "pause", "resume", "change", "restart"};
    std::snprintf(line, sizeof line, "  at %s: %s share %zu", ms(change.at_ns).c_str(),
                  kKinds[static_cast<int>(change.kind)], change.share);
    text += line;
    if (change.kind == Change::Kind::terms) {
      std::snprintf(line, sizeof line, " to promise %.1f%% weight %u ceiling %.1f%%", change.promise_ppm / 1e4,
                    change.weight, change.ceiling_ppm / 1e4);
      text += line;
    }
    text += '\n';
  }
  return text;
}

std::string describe(const Mix& mix, const Outcome& outcome) {
  std::string text = describe(mix);
  char line[200];
  for (const Part& part : outcome.parts) {
    std::snprintf(line, sizeof line, "  share %zu on GPU %u: had %6.2f due %6.2f account %6.2f%s\n", part.share,
                  part.gpu, part.had, part.due, part.account, part.judged ? "" : " (not judged)");
    text += line;
  }
  for (std::size_t g = 0; g < outcome.idle.size(); ++g) {
    std::snprintf(line, sizeof line, "  GPU %zu: idle %.2f\n", g, outcome.idle[g]);
    text += line;
  }
  for (const std::string& each : outcome.broken) text += "  BROKEN " + each + '\n';
  return text;
}

Mix shrink(Mix mix) {
  const auto broken = [](const Mix& tried) { return !tried.shares.empty() && !run(tried).broken.empty(); };
  for (bool smaller = true; smaller;) {
    smaller = false;
    const auto keep = [&](Mix tried) {
      if (smaller || !broken(tried)) return;
      mix = std::move(tried);
      smaller = true;
    };
    for (std::size_t s = mix.shares.size(); s-- > 0 && !smaller;) {
      Mix tried = mix;
      tried.shares.erase(tried.shares.begin() + static_cast<std::ptrdiff_t>(s));
      std::erase_if(tried.changes, [s](const Change& change) { return change.share == s; });
      for (Change& change : tried.changes) change.share -= change.share > s;
      keep(std::move(tried));
    }
    for (std::size_t c = mix.changes.size(); c-- > 0 && !smaller;) {
      Mix tried = mix;
      tried.changes.erase(tried.changes.begin() + static_cast<std::ptrdiff_t>(c));
      keep(std::move(tried));
    }
    for (std::size_t s = 0; s < mix.shares.size() && !smaller; ++s) {
      const auto with = [&](auto change) {
        Mix tried = mix;
        change(tried.shares[s]);
        keep(std::move(tried));
      };
      const MixShare& share = mix.shares[s];
      if (share.processes > 1) with([](MixShare& each) { each.processes = 1; });
      if (share.load.streams > 1) with([](MixShare& each) { each.load.streams = 1; });
      if (share.load.depth != 0) with([](MixShare& each) { each.load.depth = 0; });
      if (share.load.nodes > 1) with([](MixShare& each) { each.kernel_ns *= each.load.nodes, each.load.nodes = 1; });
      if (share.load.from_ns != 0) with([](MixShare& each) { each.load.from_ns = 0; });
      if (share.load.batch != 0)
        with([](MixShare& each) { each.load.batch = 0, each.load.gap_ns = each.load.every_ns = 0; });
      if (share.weight != 100) with([](MixShare& each) { each.weight = 100; });
      if (share.gpus != 1) with([](MixShare& each) { each.gpus = 1; });
    }
  }
  return mix;
}

namespace {

// Shares with one process on one GPU and kernels of 200 us to 5 ms. They always have work, and part of the GPU is not
// guaranteed. Known exceptions from the rule: docs/decisions/arbiter.md.
Mix draw_steady(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  const auto of = [&](std::initializer_list<std::int64_t> list) { return list.begin()[below(list.size())]; };
  Mix mix{.seed = seed};
  std::uint64_t unpromised = 900'000;
  for (std::uint64_t count = 1 + below(5); count > 0; --count) {
    MixShare share;
    if (below(3) != 0) {
      share.promise_ppm = static_cast<std::uint32_t>(std::min<std::uint64_t>((1 + below(90)) * 10'000, unpromised));
      unpromised -= share.promise_ppm;
    }
    share.weight = static_cast<std::uint32_t>(of({100, 100, 100, 20, 200, 800}));
    if (below(3) == 0) share.ceiling_ppm = std::max(share.promise_ppm, 150'000u);
    share.kernel_ns = of({200 * kUs, 200 * kUs, kMs, kMs, 2 * kMs, 5 * kMs});
    mix.shares.push_back(share);
  }
  return mix;
}

}  // namespace

Mix draw_several(std::uint64_t seed) {
  std::mt19937_64 random(seed * 7'919);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  const auto of = [&](std::initializer_list<std::int64_t> list) { return list.begin()[below(list.size())]; };
  Mix mix{.gpus = below(4) == 0 ? 2u : 1u, .seed = seed};
  std::uint32_t unpromised = 100;
  for (std::uint64_t count = 2 + below(3); count > 0; --count) {
    MixShare share;
    if (mix.gpus > 1) share.gpus = static_cast<std::uint32_t>(of({1, 3, 3, 2}));
    const auto promise = static_cast<std::uint32_t>(of({0, 10, 20, 25, 30, 40, 50, 60, 70, 80, 90}));
    if (promise <= unpromised) share.promise_ppm = promise * 10'000, unpromised -= promise;
    if (share.promise_ppm != 0 && below(2) == 0) share.ceiling_ppm = share.promise_ppm;
    share.kernel_ns = of({20 * kUs, 200 * kUs, 200 * kUs, kMs, kMs, 5 * kMs, 20 * kMs, 50 * kMs, 200 * kMs, kSecond});
    share.processes = static_cast<int>(of({1, 1, 1, 2, 4, 8}));
    share.load.streams = static_cast<int>(of({1, 1, 1, 4}));
    share.weight = static_cast<std::uint32_t>(of({100, 100, 100, 200, 800}));
    if (below(6) == 0 && share.kernel_ns >= kMs) share.load.depth = 4;
    mix.shares.push_back(share);
  }
  allow_for_slices(mix);
  return mix;
}

Mix draw(std::uint64_t seed, bool wide) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  const auto one_in = [&](std::uint64_t n) { return below(n) == 0; };
  const auto of = [&](std::initializer_list<std::int64_t> list) { return list.begin()[below(list.size())]; };
  if (!wide) return draw_steady(seed);
  Mix mix{.gpus = one_in(3) ? static_cast<std::uint32_t>(1 + below(4)) : 1, .seed = seed};
  const auto count = static_cast<std::size_t>(one_in(8) ? 1 + below(16) : 1 + below(5));
  std::uint64_t unpromised = 1'000'000;
  int contexts = 0, short_ones = 0;
  for (std::size_t s = 0; s < count; ++s) {
    MixShare share;
    if (mix.gpus > 1) share.gpus = static_cast<std::uint32_t>(1 + below((1u << mix.gpus) - 1));
    if (!one_in(3) && unpromised > 10'000) {
      share.promise_ppm = static_cast<std::uint32_t>((1 + below(one_in(2) ? 100 : 20)) * 10'000);
      share.promise_ppm = static_cast<std::uint32_t>(std::min<std::uint64_t>(share.promise_ppm, unpromised));
      unpromised -= share.promise_ppm;
    }
    share.weight = static_cast<std::uint32_t>(of({100, 100, 100, 10, 20, 80, 200, 800}));
    if (one_in(3)) share.ceiling_ppm = std::max<std::uint32_t>(share.promise_ppm, 10'000);
    else if (one_in(4))
      share.ceiling_ppm =
          static_cast<std::uint32_t>(std::max<std::uint64_t>(share.promise_ppm, (1 + below(100)) * 10'000));
    share.kernel_ns = of({3 * kUs, 20 * kUs, 20 * kUs, 200 * kUs, 200 * kUs, 200 * kUs, kMs, kMs, 2 * kMs, 5 * kMs,
                          5 * kMs, 10 * kMs, 20 * kMs, 50 * kMs, 200 * kMs, kSecond});
    if (share.kernel_ns < 50 * kUs && ++short_ones > 2) share.kernel_ns = 200 * kUs;
    share.processes = one_in(3) ? static_cast<int>(1 + below(8)) : 1;
    while (contexts + share.processes * std::popcount(share.gpus) > 48 && share.processes > 1) --share.processes;
    contexts += share.processes * std::popcount(share.gpus);
    Load& load = share.load;
    if (one_in(4)) load.streams = static_cast<int>(1 + below(4));
    if (share.kernel_ns <= 50 * kUs && one_in(3)) load.nodes = static_cast<int>(of({20, 100, 1'000}));
    switch (below(6)) {
      case 0: load.depth = static_cast<int>(of({1, 2, 8})); break;
      case 1:
        load.batch = static_cast<int>(1 + below(50));
        load.gap_ns = of({50 * kUs, 200 * kUs, 2 * kMs, 20 * kMs, 100 * kMs});
        break;
      case 2:
        load.batch = static_cast<int>(1 + below(50));
        load.every_ns = of({5 * kMs, 50 * kMs, 200 * kMs});
        break;
      default: break;
    }
    if (one_in(5)) load.from_ns = static_cast<std::int64_t>(below(6)) * kSecond;
    if (one_in(6)) load.until_ns = static_cast<std::int64_t>(6 + below(5)) * kSecond;
    mix.shares.push_back(share);
  }
  for (std::uint64_t i = one_in(2) ? below(4) : 0; i > 0; --i) {
    Change change{.at_ns = static_cast<std::int64_t>(500 + below(10'000)) * kMs, .share = below(count)};
    const MixShare& share = mix.shares[change.share];
    switch (below(4)) {
      case 0: change.kind = Change::Kind::kill; break;
      case 1: {
        change.kind = Change::Kind::pause;
        Change resume = change;
        resume.kind = Change::Kind::resume;
        resume.at_ns += static_cast<std::int64_t>(1 + below(3'000)) * kMs;
        mix.changes.push_back(resume);
        break;
      }
      case 2:
        change.kind = Change::Kind::terms;
        change.promise_ppm = static_cast<std::uint32_t>(below(share.promise_ppm + 1));
        change.weight = static_cast<std::uint32_t>(of({10, 100, 400}));
        change.ceiling_ppm = std::max<std::uint32_t>(
            change.promise_ppm, one_in(2) ? ledger::kWholeGpu : static_cast<std::uint32_t>((5 + below(95)) * 10'000));
        break;
      default: change.kind = Change::Kind::restart; break;
    }
    mix.changes.push_back(change);
  }
  std::ranges::sort(mix.changes, {}, &Change::at_ns);
  allow_for_slices(mix);
  return mix;
}

}  // namespace headgate::limiter::model
