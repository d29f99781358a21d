// Records turns until it is known which shares used them; and the figures kept per share.
#include <algorithm>

#include "schedule/arbiter.hpp"

namespace headgate::schedule {

// Called after the gates are decided: a turn is a span in which a share that wants the GPU finds its gate shut.
void Arbiter::record_turns(std::int64_t now_ns) {
  for (const auto& gang : gangs_)
    for (GangOnGpu& stake : gang->stakes) {
      const Gpu& gpu = gpus_[stake.gpu];
      const bool keeps_out = gpu.holder == gang.get() && gpu.kept_out > 0;
      // End it while the time of its marks is still known.
      const bool old = stake.open.share != kNoShare && now_ns - stake.open.from_ns > kLongestLeaseNs;
      if (!keeps_out || old) stake.end_turn(now_ns);
      if (keeps_out && stake.open.share == kNoShare)
        stake.open = {gang->members[0], stake.gpu, now_ns, 0, stake.held_ns, stake.reserved};
    }
}

std::optional<Turn> Arbiter::next_turn(std::int64_t now_ns) {
  for (const auto& gang : gangs_)
    for (GangOnGpu& stake : gang->stakes) {
      while (stake.first != stake.last && now_ns - stake.turns[stake.first % GangOnGpu::kTurns].from_ns > kKnownNs)
        ++stake.first;
      if (stake.first == stake.last) continue;
      const Turn& oldest = stake.turns[stake.first % GangOnGpu::kTurns];
      if (oldest.to_ns + kTurnSettlesNs > now_ns) continue;
      ++stake.first;
      return oldest;
    }
  return std::nullopt;
}

void Arbiter::settle(const Turn& turn, std::int64_t idle_ns) {
  Gang* const gang = turn.share < shares_.size() ? shares_[turn.share].gang : nullptr;
  GangOnGpu* const stake = gang == nullptr ? nullptr : gang->stake(turn.gpu);
  if (stake != nullptr)
    stake->charge(std::clamp<std::int64_t>(idle_ns, 0, turn.to_ns - turn.from_ns), turn.reserved, true);
}

std::int64_t Arbiter::virtual_time_ns(ShareId share, std::uint32_t gpu) const {
  const GangOnGpu* const stake = shares_[share].gang->stake(gpu);
  return stake == nullptr ? 0 : stake->virtual_ns;
}

std::int64_t Arbiter::wanted_ns(ShareId share, std::uint32_t gpu) const {
  for (const ShareOnGpu& place : shares_[share].places)
    if (place.terms.gpu == gpu) return place.wanted_ns;
  return 0;
}

}  // namespace headgate::schedule
