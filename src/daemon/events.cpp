#include "daemon/events.hpp"

#include "base/units.hpp"
#include "node/processes.hpp"

namespace headgate::daemon {
namespace {

std::string name_of(const identity::Process& process) {
  return "process " + std::to_string(process.pid) + " (" + process.command + ")";
}

snapshot::Event event_of(const char* kind, const tenancy::TenantProcess& tenant, OwnerUid owner, const char* what) {
  return {.kind = kind,
          .severity = "info",
          .share = tenant.share,
          .pid = tenant.process.pid,
          .uid = tenant.uid,
          .owner_uid = owner,
          .text = "process " + std::to_string(tenant.process.pid) + " (" + tenant.process.command + ", " +
                  node::where_text(tenant.where) + ") " + what + tenant.share};
}

}  // namespace

snapshot::Event joined_event(const tenancy::TenantProcess& tenant, OwnerUid owner) {
  return event_of("process.joined", tenant, owner, tenant.adopted ? "was found in " : "joined ");
}

snapshot::Event left_event(const tenancy::TenantProcess& tenant, OwnerUid owner) {
  return event_of("process.left", tenant, owner, "left ");
}

snapshot::Event lie_event(const std::string& share, const identity::Peer& peer, const std::string& what,
                          OwnerUid owner) {
  return {.kind = "tenant.lied",
          .severity = "warn",
          .share = share,
          .pid = peer.process.pid,
          .uid = peer.uid,
          .owner_uid = owner,
          .text = name_of(peer.process) + " at the door of " + share + ": " + what};
}

snapshot::Event unasked_event(const tenancy::TenantProcess& tenant, OwnerUid owner) {
  return {.kind = "tenant.lied",
          .severity = "warn",
          .share = tenant.share,
          .pid = tenant.process.pid,
          .uid = tenant.uid,
          .owner_uid = owner,
          .text = name_of(tenant.process) + " sits in " + tenant.share +
                  ", where each process needs a scheduler's leave, and none gave it"};
}

snapshot::Event store_lost_event(const std::string& path) {
  return {.kind = "store.lost",
          .severity = "error",
          .text = "the database " + path +
                  " was gone, and an empty one was begun: quotas, and shares without pages, are lost unless a backup "
                  "is put back (docs/backup.md)"};
}

snapshot::Event shortage_event(const node::MemoryShortage& shortage, const tenancy::Share& share) {
  std::string asked;
  for (const auto& name : shortage.asked) asked += (asked.empty() ? "" : ", ") + name;
  // Count contexts and code too: by the allocations alone there would seem to be room.
  const std::string used = bytes_text(shortage.used_bytes) +
                           (shortage.limit_bytes ? " of its " + bytes_text(*shortage.limit_bytes) : "") +
                           " are in use, contexts and code among them";
  return {.kind = share.oom_wait ? "memory.waiting" : "memory.short",
          .severity = "warn",
          .share = share.name,
          .uuid = shortage.uuid,
          .uid = share.owner_uid,
          .owner_uid = share.owner_uid,
          .text = share.name + (share.oom_wait ? " waits for " : " lacks ") + bytes_text(shortage.bytes) +
                  (shortage.of_card ? ", which the card does not have" : "; " + used) +
                  (asked.empty() ? "" : "; idle shares are asked to trim their pools: " + asked)};
}

snapshot::Event enforcement_event(const observe::Finding& found, const Result<node::EnforcementResult>& done) {
  return {.kind = !found.proven ? "audit.spared"
                  : done        ? "audit.acted"
                                : "audit.failed",
          .severity = done ? "warn" : "error",
          .share = found.share,
          .uuid = found.uuid,
          .pid = found.pid,
          .uid = found.uid,
          .owner_uid = found.owner_uid,
          .text = (done ? "process " + std::to_string(found.pid) + " " + done->text : done.error().message) +
                  (found.proven ? "" : ", and no more: " + found.doubt)};
}

}  // namespace headgate::daemon
