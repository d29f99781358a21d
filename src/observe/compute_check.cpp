#include "observe/compute_check.hpp"

#include <algorithm>

#include "base/saturating_math.hpp"
#include "observe/audit_text.hpp"

namespace headgate::observe {
namespace {

// Returns the share that all processes on the GPU belong to, if the driver gives no process's busy time. It cannot on
// all cards, nor in all containers.
const std::string* only_share_on(const snapshot::Snapshot& snapshot, const std::string& uuid) {
  const std::string* only = nullptr;
  for (const snapshot::Process& process : snapshot.processes) {
    const auto device = std::ranges::find(process.devices, uuid, &snapshot::ProcessDevice::uuid);
    if (device == process.devices.end() || !device->driver_bytes) continue;
    if (device->busy_ratio || process.share.empty() || (only != nullptr && *only != process.share)) return nullptr;
    only = &process.share;
  }
  return only;
}

std::optional<double> busy_ratio(const snapshot::Snapshot& snapshot, const snapshot::Process& process,
                                 const snapshot::ProcessDevice& device) {
  if (device.busy_ratio) return device.busy_ratio;
  const auto gpu = std::ranges::find(snapshot.gpus, device.uuid, &snapshot::Gpu::uuid);
  const std::string* const only = only_share_on(snapshot, device.uuid);
  if (gpu == snapshot.gpus.end() || only == nullptr || *only != process.share) return std::nullopt;
  return gpu->busy_ratio;
}

}  // namespace

ComputeBooks compute_books(const JoinInput& input) {
  ComputeBooks books;
  for (std::size_t l = 0; l < input.ledgers.size(); ++l) {
    const LedgerSnapshot& ledger = input.ledgers[l];
    if (!ledger.share.problem.empty()) continue;
    std::vector<std::uint64_t> share_launches(ledger.share.devices.size());
    for (const Seat& seat : ledger.seats)
      for (std::size_t d = 0; d < share_launches.size() && d < seat.work.size(); ++d)
        share_launches[d] += seat.work[d].launches;
    for (std::size_t s = 0; s < ledger.seats.size(); ++s) {
      const Seat& seat = ledger.seats[s];
      for (std::size_t d = 0; d < ledger.share.devices.size() && d < seat.work.size(); ++d) {
        const snapshot::ShareDevice& device = ledger.share.devices[d];
        ComputeWords& words = books[{input.host_pid(l, s), device.uuid}];
        words.metered = seat.work[d].metered;
        words.held_ns = device.held_ns;
        words.copy_ns = device.copy_ns;
        words.launches += seat.work[d].launches;  // a process in several seats may have launched in any
        words.working = words.working || seat.work[d].working;
        words.share_launches = share_launches[d];
        if (seat.work[d].pulse) words.pulse = words.pulse.value_or(0) + *seat.work[d].pulse;
      }
    }
  }
  return books;
}

void ComputeCheck::look(const snapshot::Snapshot& snapshot, const ComputeBooks& books) {
  for (auto& [key, track] : tracks_) track.seen = false;
  for (const snapshot::Process& process : snapshot.processes) {
    for (const snapshot::ProcessDevice& device : process.devices) {
      const auto known = books.find({process.pid, device.uuid});
      if (process.pid == 0 || process.share.empty() || known == books.end()) continue;
      const ComputeWords& words = known->second;
      const std::uint64_t now_ns = snapshot.taken_ns;
      Track& track = tracks_[known->first];
      track.seen = true;
      if (!words.metered) track.unmetered_ns = now_ns;
      const bool fresh = track.from_ns == 0 || now_ns <= track.looked_ns;
      // Time in which the daemon was stalled neither accuses a process nor clears it.
      if (!fresh && now_ns - track.looked_ns > rules_.stall_ns) {
        begin_step(track, words, now_ns);
        continue;
      }
      if (fresh || (track.unmetered_ns != 0 && now_ns - track.unmetered_ns < rules_.grace_ns)) {
        track.steps = track.certain_steps = 0;
        begin_step(track, words, now_ns);
        continue;
      }
      track.counted_times = std::max(track.counted_times, counted_times(snapshot, device.uuid));
      track.shares_sms |= device.mps && track.counted_times > 1;
      track.in_flight &= words.working;
      if (const auto busy = busy_ratio(snapshot, process, device)) {
        track.busy_ns += *busy * static_cast<double>(now_ns - track.looked_ns);
        track.told_ns += static_cast<double>(now_ns - track.looked_ns);
      }
      track.looked_ns = now_ns;
      track.from.working = track.from.working || words.working;
      if (now_ns - track.from_ns >= rules_.step_ns)
        end_step(track, process, format_gpu(snapshot, device.uuid), words, now_ns);
    }
  }
  std::erase_if(tracks_, [](const auto& entry) { return !entry.second.seen; });
  std::erase_if(proven_, [&](const std::string& share) {
    return std::ranges::find(snapshot.shares, share, &snapshot::Share::name) == snapshot.shares.end();
  });
}

void ComputeCheck::begin_step(Track& track, const ComputeWords& words, std::uint64_t now_ns) const {
  track.from = words;
  track.from_ns = track.looked_ns = now_ns;
  track.busy_ns = track.told_ns = 0;
  track.counted_times = 1;
  track.shares_sms = false;
  track.in_flight = words.working;
}

void ComputeCheck::end_step(Track& track, const snapshot::Process& process, const std::string& where,
                            const ComputeWords& words, std::uint64_t now_ns) {
  const double elapsed_ns = static_cast<double>(now_ns - track.from_ns);
  const double busy = track.told_ns > 0 ? track.busy_ns / track.told_ns : 0;
  const double held = static_cast<double>(saturating_sub(words.held_ns, track.from.held_ns)) / elapsed_ns;
  // Some cards use kernels to copy within their memory.
  const double accounted = held + static_cast<double>(saturating_sub(words.copy_ns, track.from.copy_ns)) / elapsed_ns;
  // What is left of the driver's figure if that counts the same time for others as well.
  const double own_busy = busy / track.counted_times;
  const bool share_says_nothing = accounted < own_busy * rules_.least_accounted_ratio;
  const bool launched = words.launches != track.from.launches;
  // The other processes' honest reports do not cover it. But under MPS the driver may not know which client the work is
  // of.
  const bool seat_says_nothing =
      !launched && !track.from.working && accounted - held < busy * rules_.least_accounted_ratio && !track.shares_sms;
  const StepWork step{.in_flight = track.in_flight,
                      .launched = launched,
                      .held_ns = saturating_sub(words.held_ns, track.from.held_ns),
                      .launches = saturating_sub(words.share_launches, track.from.share_launches)};
  const bool limiter_stalled = launched && words.pulse && words.pulse == track.from.pulse;
  const bool explained = limiter_stalled || may_be_in_flight(step);
  const bool differs = share_says_nothing || accounted + rules_.slack_ratio < own_busy;
  track.explained_ns = explained && differs ? track.explained_ns + (now_ns - track.from_ns) : 0;
  const bool believed = explained && track.explained_ns < rules_.long_call_ns;
  const bool suspect = seat_says_nothing || (share_says_nothing && !believed);
  if (busy < rules_.least_busy_ratio || !suspect) {
    track.steps = track.certain_steps = 0;
    if (busy >= rules_.least_busy_ratio && held >= busy / 2) proven_.insert(process.share);
  } else if (!rules_.frozen || !rules_.frozen(process.pid)) {
    ++track.steps;
    track.certain_steps = explained ? 0 : track.certain_steps + 1;
    track.text = "keeps " + format_percent(busy) + where + " busy according to the driver, " +
                 (share_says_nothing ? "the whole share " + format_percent(held) + " according to its ledger"
                                     : "and has launched nothing according to its ledger") +
                 (explained ? "; unexplained: work in flight is not charged for so long" : "");
  }
  begin_step(track, words, now_ns);
}

std::uint64_t ComputeCheck::explained_ns(std::uint32_t pid, const std::string& uuid) const {
  const auto found = tracks_.find({pid, uuid});
  return found == tracks_.end() ? 0 : found->second.explained_ns;
}

std::optional<ComputeCheck::Verdict> ComputeCheck::of(std::uint32_t pid, const std::string& uuid) const {
  const auto found = tracks_.find({pid, uuid});
  if (found == tracks_.end() || found->second.steps == 0) return std::nullopt;
  const Track& track = found->second;
  return Verdict{track.text, track.steps >= rules_.steps, track.certain_steps >= rules_.steps};
}

namespace {

// A limiter charges a launch of unknown length as 200 us (kUnknownCommandNs in the limiter's estimates.hpp).
constexpr std::uint64_t kMinChargeNs = 100'000, kMaxChargeNs = 400'000;

}  // namespace

double counted_times(const snapshot::Snapshot& snapshot, const std::string& uuid) {
  const auto gpu = std::ranges::find(snapshot.gpus, uuid, &snapshot::Gpu::uuid);
  double sum = 0, processes = 0;
  bool mps = gpu != snapshot.gpus.end() && gpu->mps_clients > 0;
  for (const snapshot::Process& process : snapshot.processes) {
    const auto device = std::ranges::find(process.devices, uuid, &snapshot::ProcessDevice::uuid);
    if (device == process.devices.end()) continue;
    mps |= device->mps;
    if (device->driver_bytes || device->busy_ratio) ++processes;
    sum += device->busy_ratio.value_or(0);
  }
  return std::max({1.0, sum, mps ? processes : 0.0});
}

bool may_be_in_flight(const StepWork& step) {
  if (!step.in_flight) return false;
  if (!step.launched) return true;
  return step.launches > 0 && step.held_ns >= kMinChargeNs * step.launches &&
         step.held_ns <= kMaxChargeNs * step.launches;
}

}  // namespace headgate::observe
