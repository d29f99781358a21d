// GPUs for this room's tests: gates as the shares see them, and what shares report.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "schedule/arbiter.hpp"

namespace headgate::schedule {

inline constexpr std::int64_t kMs = 1'000'000, kUs = 1'000;

struct Gpus {
  explicit Gpus(std::uint32_t gpus = 1) : arbiter(gpus) {}

  ShareId add(std::vector<Terms> terms, std::string gang = "") {
    return arbiter.add_share({.gpus = std::move(terms), .gang = std::move(gang)});
  }
  void want(ShareId share, std::uint32_t gpu = 0) {
    Use& use = uses[{share, gpu}];
    use.wanting = true;
    ++use.requests;
  }
  void run(ShareId share, std::int64_t in_flight_ns, std::uint32_t gpu = 0) {
    Use& use = uses[{share, gpu}];
    use.wanting = false;
    use.in_flight_ns = in_flight_ns;
    if (in_flight_ns > 0) ++use.requests;
  }
  void rest(ShareId share, std::uint32_t gpu = 0) { run(share, 0, gpu); }
  Decision decide(std::int64_t at_ns) {
    for (const auto& [where, use] : uses) arbiter.observe(where.first, where.second, use, at_ns);
    const Decision decision = arbiter.decide(at_ns);
    for (const Change& change : decision.changes) {
      gates[{change.share, change.gpu}] = change.gate;
      batches[{change.share, change.gpu}] = change.batch_ns;
    }
    return decision;
  }
  Gate gate(ShareId share, std::uint32_t gpu = 0) const {
    const auto found = gates.find({share, gpu});
    return found == gates.end() ? Gate::open_notify : found->second;
  }

  Arbiter arbiter;
  std::map<std::pair<ShareId, std::uint32_t>, Use> uses;
  std::map<std::pair<ShareId, std::uint32_t>, Gate> gates;
  std::map<std::pair<ShareId, std::uint32_t>, std::int64_t> batches;
};

// Plays steps of 1 ms in which each share on `places` works if its gate is open, and waits otherwise. A share of two
// GPUs works on both or on none. Work in flight at the end of a step ends soon, so no turn waits for it. Returns how
// many steps each share worked.
inline std::map<ShareId, int> play(Gpus& gpus,
                                   const std::vector<std::pair<ShareId, std::vector<std::uint32_t>>>& shares,
                                   std::int64_t& at_ns, int steps) {
  std::map<ShareId, int> worked;
  for (int i = 0; i < steps; ++i, at_ns += kMs) {
    for (const auto& [share, places] : shares) {
      const bool open = std::ranges::all_of(places, [&, id = share](std::uint32_t gpu) {
        return gpus.gate(id, gpu) == Gate::open || gpus.gate(id, gpu) == Gate::open_notify;
      });
      worked[share] += open;
      for (const std::uint32_t gpu : places) {
        if (open) gpus.run(share, kTailLeadNs, gpu), gpus.uses[{share, gpu}].held_ns += kMs;
        else gpus.rest(share, gpu), gpus.want(share, gpu);
      }
    }
    gpus.decide(at_ns);
    while (const auto turn = gpus.arbiter.next_turn(at_ns)) gpus.arbiter.settle(*turn, 0);
  }
  return worked;
}

}  // namespace headgate::schedule
