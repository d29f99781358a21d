#include "observe/fence_check.hpp"

#include "base/saturating_math.hpp"
#include "base/units.hpp"
#include "observe/audit.hpp"
#include "observe/audit_text.hpp"

namespace headgate::observe {

std::vector<snapshot::Event> FenceCheck::look(const snapshot::Snapshot& snapshot) {
  std::vector<snapshot::Event> events;
  std::map<std::pair<std::string, std::string>, Case> now;
  for (const snapshot::Share& share : snapshot.shares) {
    const std::uint64_t slack = rules_.slack_bytes * (share.processes + 1ull);
    for (const snapshot::ShareDevice& device : share.devices) {
      const std::uint64_t counted = device.driver_used_bytes.value_or(0);
      if (counted <= saturating_add(device.memory_used_bytes, slack)) continue;
      const auto key = std::pair(share.name, device.uuid);
      const auto before = cases_.find(key);
      Case& one = now[key] = before == cases_.end() ? Case{.looks = 0, .since_ns = snapshot.taken_ns} : before->second;
      ++one.looks;
      if (one.told || one.looks < rules_.looks || snapshot.taken_ns - one.since_ns < rules_.least_ns) continue;
      one.told = true;
      events.push_back({.kind = event_kind(FindingKind::memory),
                        .severity = "warn",
                        .share = share.name,
                        .uuid = device.uuid,
                        .owner_uid = share.owner_uid,
                        .text = "the driver counts " + bytes_text(counted) + format_gpu(snapshot, device.uuid) +
                                " in the cgroups of share " + share.name + ", whose ledger has " +
                                bytes_text(device.memory_used_bytes)});
    }
  }
  cases_ = std::move(now);
  return events;
}

}  // namespace headgate::observe
