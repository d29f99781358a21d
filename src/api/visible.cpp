#include "api/visible.hpp"

#include <algorithm>
#include <set>

namespace headgate::api {
namespace {

std::set<std::string> seen_shares(const snapshot::Snapshot& snapshot, const node::Caller& caller) {
  std::set<std::string> seen;
  for (const auto& share : snapshot.shares) {
    if (caller.sees(share.owner_uid, share.uids, share.gids)) seen.insert(share.name);
  }
  return seen;
}

}  // namespace

snapshot::Snapshot visible(const snapshot::Snapshot& snapshot, const node::Caller& caller) {
  if (caller.administrator) return snapshot;
  snapshot::Snapshot seen = snapshot;
  const auto shares = seen_shares(snapshot, caller);
  std::erase_if(seen.shares, [&](const auto& share) { return !shares.contains(share.name); });
  std::erase_if(seen.processes, [&](const auto& process) {
    return process.share.empty() ? process.uid != caller.uid : !shares.contains(process.share);
  });
  // Only a page that tenants write names this process, so /proc may hide its details from this caller: drop them.
  for (auto& process : seen.processes) {
    if (!process.claimed || process.uid == caller.uid) continue;
    process.uid = 0;
    process.user = process.command = process.where = "";
    for (auto& device : process.devices) device.driver_bytes.reset(), device.busy_ratio.reset(), device.mps = false;
  }
  std::erase_if(seen.waiting, [&](const auto& waiting) { return !caller.owns(waiting.owner_uid); });
  return seen;
}

bool may_see(const snapshot::Event& event, const node::Caller& caller) {
  if (caller.administrator) return true;
  if (!event.share.empty()) return (event.owner_uid && caller.owns(*event.owner_uid)) || event.uid == caller.uid;
  if (event.owner_uid) return caller.owns(*event.owner_uid);             // of the node, about this user
  return event.pid == 0 || (caller.known() && event.uid == caller.uid);  // an audit finding names a process
}

}  // namespace headgate::api
