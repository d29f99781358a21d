#include "observe/audit.hpp"

#include <algorithm>

#include "base/saturating_math.hpp"
#include "base/units.hpp"
#include "observe/audit_text.hpp"

namespace headgate::observe {
namespace {

std::string who(const snapshot::Process& process) {
  return "process " + std::to_string(process.pid) +
         (process.command.empty() ? ""
                                  : " (" + process.command + (process.user.empty() ? "" : ", " + process.user) + ")");
}

}  // namespace

std::optional<std::uint32_t> owner_of(const snapshot::Snapshot& snapshot, const std::string& share) {
  const auto found = std::ranges::find(snapshot.shares, share, &snapshot::Share::name);
  return found == snapshot.shares.end() ? std::nullopt : std::optional(found->owner_uid);
}

std::string event_kind(FindingKind kind) {
  constexpr const char* kKinds[] = {"audit.outside", "audit.memory", "audit.compute"};
  return kKinds[static_cast<std::size_t>(kind)];
}

bool Audit::is_exempt(const ProcessFacts& facts) const {
  const auto listed = [&](const std::string& name) {
    return !name.empty() && std::ranges::find(rules_.exempt, name) != rules_.exempt.end();
  };
  if (facts.program.empty()) return false;
  if (facts.program_parent && !listed(*facts.program_parent)) return listed(facts.program + "@" + facts.user);
  return listed(facts.program);
}

void Audit::suspect(const snapshot::Snapshot& snapshot, const snapshot::Process& process, FindingKind kind,
                    const std::string& uuid, std::string text, std::vector<Suspicion>& found, std::optional<bool> ripe,
                    bool certain) {
  Case& known = cases_[{process.pid, kind}];
  if (!known.seen) ++known.looks;  // several GPUs at once count as one
  known.seen = true;
  const bool agreed = is_proven(kind, process.share);
  found.push_back(
      {{.kind = kind,
        .pid = process.pid,
        .uid = process.uid,
        .share = process.share,
        .owner_uid = owner_of(snapshot, process.share),
        .uuid = uuid,
        .text = std::move(text),
        .proven = agreed && certain,
        .doubt = !agreed ? "the ledger of " + process.share + " has not been seen to agree with the driver yet"
                 : !certain
                     ? (kind == FindingKind::memory ? "its share is charged for it" : "work in flight may explain it")
                     : ""},
       ripe});
}

bool Audit::is_proven(FindingKind kind, const std::string& share) const {
  switch (kind) {
    case FindingKind::outside: return true;
    case FindingKind::memory: return memory_proven_.contains(share);
    case FindingKind::compute: return compute_.is_proven(share) || sum_.is_proven(share);
  }
  return false;
}

std::set<std::uint32_t> Audit::suspects() const {
  std::set<std::uint32_t> pids;
  for (const auto& [key, known] : cases_) pids.insert(key.first);
  return pids;
}

// Judges a process that is in a share.
void Audit::look_at(const snapshot::Snapshot& snapshot, const snapshot::Process& process,
                    const snapshot::ProcessDevice& device, std::vector<Suspicion>& found) {
  const std::string where = format_gpu(snapshot, device.uuid), whose = who(process) + " of share " + process.share;
  if (device.driver_bytes && saturating_sub(*device.driver_bytes, device.ledger_bytes) > rules_.memory_slack_bytes) {
    suspect(snapshot, process, FindingKind::memory, device.uuid,
            whose + " holds " + bytes_text(*device.driver_bytes) + where + " according to the driver, " +
                bytes_text(device.ledger_bytes) + " according to its ledger: it bypasses the limiter",
            found);
  } else if (device.driver_bytes && device.unexplained_bytes > rules_.memory_slack_bytes) {
    suspect(snapshot, process, FindingKind::memory, device.uuid,
            whose + " holds " + bytes_text(device.unexplained_bytes) + where +
                " that none of its calls explains: a second copy of the driver, graphics or video took it",
            found, {}, false);
  } else if (device.driver_bytes && *device.driver_bytes > 0) {
    memory_proven_.insert(process.share);
  }
  auto verdict = compute_.of(process.pid, device.uuid);
  if (!verdict) verdict = sum_.of(process.pid, device.uuid);
  if (verdict) {
    suspect(snapshot, process, FindingKind::compute, device.uuid, whose + " " + verdict->text, found, verdict->ripe,
            verdict->certain);
    return;
  }
  const auto share = std::ranges::find(snapshot.shares, process.share, &snapshot::Share::name);
  if (share == snapshot.shares.end() || !device.busy_ratio) return;
  const auto grant = std::ranges::find(share->devices, device.uuid, &snapshot::ShareDevice::uuid);
  if (grant == share->devices.end() || !grant->held_ratio) return;
  const double own_busy = *device.busy_ratio / counted_times(snapshot, device.uuid), slack = rules_.compute.slack_ratio;
  const std::uint64_t explained_ns = compute_.explained_ns(process.pid, device.uuid);
  const bool believed = explained_ns != 0 && explained_ns < rules_.compute.long_call_ns;
  if (own_busy > *grant->held_ratio + slack && own_busy > grant->compute_ceiling_ratio + slack && !believed) {
    suspect(snapshot, process, FindingKind::compute, device.uuid,
            whose + " keeps " + format_percent(*device.busy_ratio) + where +
                " busy according to the driver, the whole share " + format_percent(*grant->held_ratio) +
                " according to its ledger",
            found, {}, explained_ns == 0);
  }
}

std::vector<Finding> Audit::look(snapshot::Snapshot& snapshot, const std::map<std::uint32_t, ProcessFacts>& facts,
                                 const ComputeBooks& books) {
  const auto start_time_of = [&](std::uint32_t pid) {
    const auto of_process = facts.find(pid);
    return of_process == facts.end() ? 0 : of_process->second.start_time;
  };
  // What was seen of a process does not count against the next one with its pid.
  std::erase_if(cases_, [&](const auto& entry) { return entry.second.start_time != start_time_of(entry.first.first); });
  for (auto& [key, known] : cases_) known.seen = false;
  exempt_.clear();
  for (const auto& [pid, of_process] : facts) {
    if (is_exempt(of_process)) exempt_.insert(pid);
  }
  snapshot.node.unattended_processes = static_cast<std::uint32_t>(std::ranges::count_if(
      snapshot.processes, [&](const auto& process) { return process.share.empty() && !exempts(process.pid); }));
  compute_.look(snapshot, books);
  sum_.look(snapshot, books);
  std::vector<Suspicion> found;
  for (const snapshot::Process& process : snapshot.processes) {
    if (process.pid == 0 || exempts(process.pid)) continue;
    for (const auto& device : process.devices) {
      if (!process.share.empty()) {
        look_at(snapshot, process, device, found);
        continue;
      }
      suspect(snapshot, process, FindingKind::outside, device.uuid,
              who(process) + " uses " + (device.driver_bytes ? bytes_text(*device.driver_bytes) : "memory") +
                  format_gpu(snapshot, device.uuid) + " and is in no share: no limit applies to it",
              found);
      break;
    }
  }
  std::erase_if(cases_, [](const auto& entry) { return !entry.second.seen; });
  std::erase_if(memory_proven_, [&](const std::string& share) { return !owner_of(snapshot, share); });

  std::vector<Finding> fresh;
  for (auto& [finding, ripe] : found) {
    Case& known = cases_[{finding.pid, finding.kind}];
    known.start_time = finding.start_time = start_time_of(finding.pid);
    if (!known.since_ns) known.since_ns = snapshot.taken_ns;
    bool explained = false;
    if (!known.reason && known.looks + 1 >= rules_.looks) {
      known.reason = rules_.explain ? rules_.explain(finding.pid) : "";
      explained = known.reason && !known.reason->empty();
    }
    const bool by_looks = known.looks >= rules_.looks && snapshot.taken_ns - *known.since_ns >= rules_.least_ns;
    if (!ripe.value_or(by_looks)) continue;
    const bool waits = rules_.explain && !known.reason;
    const std::string reason = waits ? "how it goes around has not been looked into yet" : known.reason.value_or("");
    if (!reason.empty()) finding.text += "; " + reason;
    for (auto& process : snapshot.processes) {
      if (process.pid == finding.pid) process.finding = finding.text;
    }
    using Update = Finding::Update;
    const auto tell = [&](Update update) { finding.update = update, fresh.push_back(finding); };
    if (!known.told) tell(Update::found);
    else if (explained) tell(Update::explained);
    if (known.told && finding.proven && !known.proven) tell(Update::proven);
    known.told = true;
    known.proven |= finding.proven;
  }
  return fresh;
}

}  // namespace headgate::observe
