#include "observe/compute_check.hpp"

#include <algorithm>

#include "base/saturated.hpp"
#include "observe/words.hpp"

namespace headgate::observe {
namespace {

// Who keeps the GPU busy, where the driver tells of no process how busy it is (it cannot on all cards, nor in all containers): the
// one that all its processes belong to.
const std::string* only_share_on(const snapshot::Snapshot& picture, const std::string& uuid) {
  const std::string* only = nullptr;
  for (const snapshot::Process& process : picture.processes) {
    const auto device = std::ranges::find(process.devices, uuid, &snapshot::ProcessDevice::uuid);
    if (device == process.devices.end() || !device->driver_bytes) continue;
    if (device->busy_ratio || process.share.empty() || (only != nullptr && *only != process.share)) return nullptr;
    only = &process.share;
  }
  return only;
}

std::optional<double> busy_ratio(const snapshot::Snapshot& picture, const snapshot::Process& process,
                                 const snapshot::ProcessDevice& device) {
  if (device.busy_ratio) return device.busy_ratio;
  const auto gpu = std::ranges::find(picture.gpus, device.uuid, &snapshot::Gpu::uuid);
  const std::string* const only = only_share_on(picture, device.uuid);
  if (gpu == picture.gpus.end() || only == nullptr || *only != process.share) return std::nullopt;
  return gpu->busy_ratio;
}

}  // namespace

ComputeBooks compute_books(const JoinInput& input) {
  ComputeBooks books;
  for (std::size_t l = 0; l < input.ledgers.size() && l < input.host_pids.size(); ++l) {
    const LedgerPicture& ledger = input.ledgers[l];
    if (!ledger.share.problem.empty()) continue;
    for (std::size_t s = 0; s < ledger.seats.size() && s < input.host_pids[l].size(); ++s) {
      const Seat& seat = ledger.seats[s];
      for (std::size_t d = 0; d < ledger.share.devices.size() && d < seat.work.size(); ++d) {
        const snapshot::ShareDevice& device = ledger.share.devices[d];
        ComputeWords& words = books[{input.host_pids[l][s], device.uuid}];
        words.metered = seat.work[d].metered;
        words.held_ns = device.held_ns;
        words.copy_ns = device.copy_ns;
        words.launches += seat.work[d].launches;  // a process that sits in several seats has launched in any
        words.working = words.working || seat.work[d].working;
      }
    }
  }
  return books;
}

void ComputeCheck::look(const snapshot::Snapshot& picture, const ComputeBooks& books) {
  for (auto& [key, track] : tracks_) track.seen = false;
  for (const snapshot::Process& process : picture.processes) {
    for (const snapshot::ProcessDevice& device : process.devices) {
      const auto known = books.find({process.pid, device.uuid});
      if (process.pid == 0 || process.share.empty() || known == books.end()) continue;
      const ComputeWords& words = known->second;
      const std::uint64_t now_ns = picture.taken_ns;
      Track& track = tracks_[known->first];
      track.seen = true;
      if (!words.metered) track.unmetered_ns = now_ns;
      const bool fresh = track.from_ns == 0 || now_ns <= track.looked_ns;
      if (fresh || (track.unmetered_ns != 0 && now_ns - track.unmetered_ns < rules_.grace_ns)) {
        track.steps = 0;
        begin_step(track, words, now_ns);
        continue;
      }
      if (const auto busy = busy_ratio(picture, process, device)) {
        track.busy_ns += *busy * static_cast<double>(now_ns - track.looked_ns);
        track.told_ns += static_cast<double>(now_ns - track.looked_ns);
      }
      track.looked_ns = now_ns;
      track.from.working = track.from.working || words.working;
      if (now_ns - track.from_ns >= rules_.step_ns)
        end_step(track, process, gpu_words(picture, device.uuid), words, now_ns);
    }
  }
  std::erase_if(tracks_, [](const auto& entry) { return !entry.second.seen; });
  std::erase_if(proven_, [&](const std::string& share) {
    return std::ranges::find(picture.shares, share, &snapshot::Share::name) == picture.shares.end();
  });
}

void ComputeCheck::begin_step(Track& track, const ComputeWords& words, std::uint64_t now_ns) const {
  track.from = words;
  track.from_ns = track.looked_ns = now_ns;
  track.busy_ns = track.told_ns = 0;
}

void ComputeCheck::end_step(Track& track, const snapshot::Process& process, const std::string& where,
                            const ComputeWords& words, std::uint64_t now_ns) {
  const double elapsed_ns = static_cast<double>(now_ns - track.from_ns);
  const double busy = track.told_ns > 0 ? track.busy_ns / track.told_ns : 0;
  const double held = static_cast<double>(less(words.held_ns, track.from.held_ns)) / elapsed_ns;
  // Some cards copy within their memory by kernels.
  const double accounted = held + static_cast<double>(less(words.copy_ns, track.from.copy_ns)) / elapsed_ns;
  const bool share_says_nothing = accounted < busy * rules_.least_accounted_ratio;
  // It has no share of what another process of the share honestly reports.
  const bool seat_says_nothing = words.launches == track.from.launches && !track.from.working &&
                                 accounted - held < busy * rules_.least_accounted_ratio;
  const bool in_long_call = words.launches == track.from.launches && track.from.working && words.working;
  track.long_call_ns = in_long_call ? track.long_call_ns + (now_ns - track.from_ns) : 0;
  const bool suspect =
      seat_says_nothing || (share_says_nothing && !(in_long_call && track.long_call_ns < rules_.long_call_ns));
  if (busy < rules_.least_busy_ratio || !suspect) {
    track.steps = 0;
    if (busy >= rules_.least_busy_ratio && held >= busy / 2) proven_.insert(process.share);
  } else if (!rules_.halted || !rules_.halted(process.pid)) {
    ++track.steps;
    track.text = "keeps " + percent_words(busy) + where + " busy by the driver, " +
                 (share_says_nothing ? "the whole share " + percent_words(held) + " by its ledger"
                                     : "and has launched nothing by its ledger");
  }
  begin_step(track, words, now_ns);
}

std::optional<ComputeCheck::Verdict> ComputeCheck::of(std::uint32_t pid, const std::string& uuid) const {
  const auto found = tracks_.find({pid, uuid});
  if (found == tracks_.end() || found->second.steps == 0) return std::nullopt;
  return Verdict{found->second.text, found->second.steps >= rules_.steps};
}

}  // namespace headgate::observe
