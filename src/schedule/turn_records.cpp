// Records turns until it is known which shares used them.
#include <algorithm>

#include "schedule/arbiter.hpp"

namespace headgate::schedule {

// Called after the gates are decided: a turn is a span in which a share that wants the GPU finds its gate shut.
void Arbiter::record_turns(std::int64_t now_ns) {
  for (GangOnGpu& stake : stakes()) {
    const Gpu& gpu = gpus_[stake.gpu];
    const bool keeps_out = gpu.holder == stake.gang && gpu.kept_out > 0;
    // End it while the time of its marks is still known.
    const bool old = stake.open.share != kNoShare && now_ns - stake.open.from_ns > kLongestLeaseNs;
    if (!keeps_out || old) stake.end_turn(now_ns);
    if (keeps_out && stake.open.share == kNoShare)
      stake.open = {stake.gang->members[0], stake.gpu, now_ns, 0, stake.held_ns, stake.reserved};
  }
}

std::optional<Turn> Arbiter::next_turn(std::int64_t now_ns) {
  for (GangOnGpu& stake : stakes()) {
    while (stake.first != stake.last && now_ns - stake.oldest_turn().from_ns > kKnownNs) ++stake.first;
    if (stake.first == stake.last || stake.oldest_turn().to_ns + kTurnSettlesNs > now_ns) continue;
    return stake.turns[stake.first++ % GangOnGpu::kTurns];
  }
  return std::nullopt;
}

void Arbiter::settle(const Turn& turn, std::int64_t idle_ns) {
  Gang* const gang = turn.share < gang_of_.size() ? gang_of_[turn.share] : nullptr;
  GangOnGpu* const stake = gang == nullptr ? nullptr : gang->stake(turn.gpu);
  if (stake != nullptr) stake->charge(std::clamp<std::int64_t>(idle_ns, 0, turn.to_ns - turn.from_ns), turn.reserved);
}

}  // namespace headgate::schedule
