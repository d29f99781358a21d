#include "observe/audit.hpp"

#include <algorithm>
#include <cstdint>

#include "base/units.hpp"

namespace headgate::observe {
namespace {

std::string percent(double ratio) { return percent_text(static_cast<std::uint64_t>(ratio * 100 + 0.5) * 10'000); }

std::string who(const snapshot::Process& process) {
  return "process " + std::to_string(process.pid) +
         (process.command.empty() ? ""
                                  : " (" + process.command + (process.user.empty() ? "" : ", " + process.user) + ")");
}

std::string gpu_name(const snapshot::Snapshot& picture, const std::string& uuid) {
  const auto gpu = std::ranges::find(picture.gpus, uuid, &snapshot::Gpu::uuid);
  return gpu == picture.gpus.end() ? uuid : "GPU " + std::to_string(gpu->index);
}

}  // namespace

std::optional<std::uint32_t> owner_of(const snapshot::Snapshot& picture, const std::string& share) {
  const auto found = std::ranges::find(picture.shares, share, &snapshot::Share::name);
  return found == picture.shares.end() ? std::nullopt : std::optional(found->owner_uid);
}

std::string event_kind(FindingKind kind) {
  switch (kind) {
    case FindingKind::outside: return "audit.outside";
    case FindingKind::memory: return "audit.memory";
    case FindingKind::compute: return "audit.compute";
  }
  return "audit";
}

bool Audit::is_exempt(const ProcessFacts& facts) const {
  return !facts.program.empty() && std::ranges::find(rules_.exempt, facts.program) != rules_.exempt.end();
}

void Audit::suspect(const snapshot::Snapshot& picture, const snapshot::Process& process, FindingKind kind,
                    const std::string& uuid, std::string text, std::vector<Finding>& found) {
  Case& known = cases_[{process.pid, kind}];
  known.seen = true;
  ++known.looks;
  found.push_back(
      {kind, process.pid, process.uid, process.share, owner_of(picture, process.share), uuid, std::move(text)});
}

std::set<std::uint32_t> Audit::suspects() const {
  std::set<std::uint32_t> pids;
  for (const auto& [key, known] : cases_) pids.insert(key.first);
  return pids;
}

std::vector<Finding> Audit::look(snapshot::Snapshot& picture, const std::map<std::uint32_t, ProcessFacts>& facts) {
  for (auto& [key, known] : cases_) known.seen = false;
  exempt_.clear();
  for (const auto& [pid, of_process] : facts) {
    if (is_exempt(of_process)) exempt_.insert(pid);
  }
  picture.node.unattended_processes = static_cast<std::uint32_t>(std::ranges::count_if(
      picture.processes, [&](const auto& process) { return process.share.empty() && !exempts(process.pid); }));
  std::vector<Finding> found;
  for (const snapshot::Process& process : picture.processes) {
    if (process.pid == 0 || exempts(process.pid)) continue;
    for (const auto& device : process.devices) {
      const std::string where = " on " + gpu_name(picture, device.uuid);
      if (process.share.empty()) {
        suspect(picture, process, FindingKind::outside, device.uuid,
                who(process) + " uses " + (device.driver_bytes ? bytes_text(*device.driver_bytes) : "memory") + where +
                    " and is in no share: no limit holds it",
                found);
        break;
      }
      if (device.driver_bytes && *device.driver_bytes > device.ledger_bytes + rules_.memory_slack_bytes) {
        suspect(picture, process, FindingKind::memory, device.uuid,
                who(process) + " of share " + process.share + " holds " + bytes_text(*device.driver_bytes) + where +
                    " by the driver, " + bytes_text(device.ledger_bytes) + " by its ledger: it goes around the limiter",
                found);
      }
      const auto share = std::ranges::find(picture.shares, process.share, &snapshot::Share::name);
      if (share == picture.shares.end() || !device.busy_ratio) continue;
      const auto grant = std::ranges::find(share->devices, device.uuid, &snapshot::ShareDevice::uuid);
      if (grant == share->devices.end() || !grant->held_ratio) continue;
      if (*device.busy_ratio > *grant->held_ratio + rules_.compute_slack_ratio &&
          *device.busy_ratio > grant->compute_ceiling_ratio + rules_.compute_slack_ratio) {
        suspect(picture, process, FindingKind::compute, device.uuid,
                who(process) + " of share " + process.share + " keeps " + percent(*device.busy_ratio) + where +
                    " busy by the driver, the whole share " + percent(*grant->held_ratio) + " by its ledger",
                found);
      }
    }
  }
  std::erase_if(cases_, [](const auto& entry) { return !entry.second.seen; });

  std::vector<Finding> fresh;
  for (Finding& finding : found) {
    Case& known = cases_[{finding.pid, finding.kind}];
    if (known.looks == 1) known.since_ns = picture.taken_ns;
    bool explained = false;
    if (!known.reason && known.looks + 1 >= rules_.looks) {
      known.reason = rules_.explain ? rules_.explain(finding.pid) : "";
      explained = known.reason && !known.reason->empty();
    }
    if (known.looks < rules_.looks || picture.taken_ns - known.since_ns < rules_.least_ns) continue;
    if (known.reason && !known.reason->empty()) finding.text += "; " + *known.reason;
    for (auto& process : picture.processes) {
      if (process.pid == finding.pid) process.finding = finding.text;
    }
    finding.told_before = known.told;
    if (!known.told || explained) fresh.push_back(finding);
    known.told = true;
  }
  return fresh;
}

}  // namespace headgate::observe
