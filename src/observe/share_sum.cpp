#include "observe/share_sum.hpp"

#include <algorithm>

#include "base/saturating_math.hpp"
#include "observe/audit_text.hpp"

namespace headgate::observe {

void ShareSum::look(const snapshot::Snapshot& snapshot, const ComputeBooks& books) {
  const std::uint64_t now_ns = snapshot.taken_ns;
  for (auto& [key, track] : tracks_) track.seen = track.told = false;
  for (const snapshot::Process& process : snapshot.processes) {
    for (const snapshot::ProcessDevice& device : process.devices) {
      const auto known = books.find({process.pid, device.uuid});
      if (process.pid == 0 || process.share.empty() || known == books.end()) continue;
      add(tracks_[{process.share, device.uuid}], process, device, known->second, now_ns);
    }
  }
  std::erase_if(tracks_, [](const auto& entry) { return !entry.second.seen; });
  verdicts_.clear();
  for (auto& [key, track] : tracks_) {
    const bool blind = track.unmetered_ns != 0 && now_ns - track.unmetered_ns < rules_.grace_ns;
    if (track.from_ns == 0 || now_ns <= track.looked_ns || blind) {
      track.steps = track.certain_steps = 0;
      track.members.clear();
      begin_step(track, now_ns);
      continue;
    }
    track.counted_times = std::max(track.counted_times, counted_times(snapshot, key.second));
    if (track.told) track.told_ns += static_cast<double>(now_ns - track.looked_ns);
    const bool stalled = now_ns - track.looked_ns > rules_.stall_ns;
    track.looked_ns = now_ns;
    if (stalled) begin_step(track, now_ns);
    else if (now_ns - track.from_ns >= rules_.step_ns)
      end_step(track, key.first, format_gpu(snapshot, key.second), now_ns);
    if (track.steps == 0) continue;
    for (const auto& [pid, text] : track.named)
      verdicts_[{pid, key.second}] = {text, track.steps >= rules_.steps, track.certain_steps >= rules_.steps};
  }
  std::erase_if(proven_, [&](const std::string& share) {
    return std::ranges::find(snapshot.shares, share, &snapshot::Share::name) == snapshot.shares.end();
  });
}

void ShareSum::add(Track& track, const snapshot::Process& process, const snapshot::ProcessDevice& device,
                   const ComputeWords& words, std::uint64_t now_ns) const {
  track.seen = true;
  track.now = words;
  if (!words.metered) track.unmetered_ns = now_ns;
  const auto [at, came] = track.members.try_emplace(process.pid);
  Member& member = at->second;
  if (came) member.launches_then = words.launches;
  // A command that cannot be charged while it runs is in the account when it ends.
  const bool in_call = words.working && (came || words.launches == member.launches);
  if (!in_call) member.in_call_since_ns = 0;
  else if (member.in_call_since_ns == 0) member.in_call_since_ns = now_ns;
  member.launches = words.launches;
  member.looked_ns = now_ns;
  if (!device.busy_ratio) return;
  track.told = true;
  if (*device.busy_ratio > rules_.rounded_ratio) track.in_flight &= words.working;
  const bool believed = in_call && now_ns - member.in_call_since_ns < rules_.long_call_ns;
  if (!believed && now_ns > track.looked_ns)
    member.busy_ns += *device.busy_ratio * static_cast<double>(now_ns - track.looked_ns);
}

void ShareSum::begin_step(Track& track, std::uint64_t now_ns) const {
  track.from = track.now;
  track.from_ns = track.looked_ns = now_ns;
  track.told_ns = 0;
  track.counted_times = 1;
  track.in_flight = true;
  std::erase_if(track.members, [&](const auto& entry) { return entry.second.looked_ns != now_ns; });
  for (auto& [pid, member] : track.members) member.busy_ns = 0, member.launches_then = member.launches;
}

double ShareSum::busy_ratio(const Track& track, const Member& member) const {
  return track.told_ns > 0 ? std::max(0.0, member.busy_ns / track.told_ns - rules_.rounded_ratio) : 0;
}

double ShareSum::busy_ratio(const Track& track) const {
  double sum = 0;
  for (const auto& [pid, member] : track.members) sum += busy_ratio(track, member);
  return std::min(sum, 1.0);
}

void ShareSum::end_step(Track& track, const std::string& share, const std::string& where, std::uint64_t now_ns) {
  const double elapsed_ns = static_cast<double>(now_ns - track.from_ns);
  const double held = static_cast<double>(saturating_sub(track.now.held_ns, track.from.held_ns)) / elapsed_ns;
  const double accounted =
      held + static_cast<double>(saturating_sub(track.now.copy_ns, track.from.copy_ns)) / elapsed_ns;
  const StepWork step{.in_flight = track.in_flight,
                      .launched = true,  // members that have not launched are believed alone
                      .held_ns = saturating_sub(track.now.held_ns, track.from.held_ns),
                      .launches = saturating_sub(track.now.share_launches, track.from.share_launches)};
  const bool explained = may_be_in_flight(step);
  const double own_busy = busy_ratio(track) / track.counted_times;
  const bool differs = accounted < own_busy * rules_.least_accounted_ratio;
  track.explained_ns = explained && differs ? track.explained_ns + (now_ns - track.from_ns) : 0;
  const bool believed = explained && track.explained_ns < rules_.long_call_ns;
  const auto silent = [&] {
    const double busy = busy_ratio(track);
    return busy >= rules_.least_busy_ratio && !believed &&
           accounted < busy / track.counted_times * rules_.least_accounted_ratio;
  };
  if (!silent()) {
    track.steps = track.certain_steps = 0;
    const double busy = busy_ratio(track);
    if (busy >= rules_.least_busy_ratio && held >= busy / 2) proven_.insert(share);
  } else {
    // A stopped process cannot account for anything: judge the others on their part, and clear none.
    std::erase_if(track.members, [&](const auto& entry) { return rules_.frozen && rules_.frozen(entry.first); });
    if (silent()) {
      ++track.steps;
      track.certain_steps = explained ? 0 : track.certain_steps + 1;
      track.named.clear();
      const auto part = [&](const Member& member) { return busy_ratio(track, member) > 0; };
      const auto mute = [&](const Member& member) { return member.launches == member.launches_then; };
      const bool some_mute = std::ranges::any_of(
          track.members, [&](const auto& entry) { return part(entry.second) && mute(entry.second); });
      const auto count = std::ranges::count_if(track.members, [&](const auto& entry) { return part(entry.second); });
      for (const auto& [pid, member] : track.members) {
        if (!part(member) || (some_mute && !mute(member))) continue;
        track.named[pid] = "keeps " + format_percent(member.busy_ns / track.told_ns) + where +
                           " busy according to the driver, " + std::to_string(count) +
                           " processes of its share together " + format_percent(busy_ratio(track)) +
                           ", the whole share " + format_percent(held) + " according to its ledger";
      }
    }
  }
  begin_step(track, now_ns);
}

std::optional<ComputeCheck::Verdict> ShareSum::of(std::uint32_t pid, const std::string& uuid) const {
  const auto found = verdicts_.find({pid, uuid});
  return found == verdicts_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace headgate::observe
