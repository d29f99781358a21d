#include "tenancy/share_entry.hpp"

#include <fcntl.h>

#include <utility>

#include "base/now.hpp"
#include "tenancy/share.hpp"

namespace headgate::tenancy {

UniqueFd spare_descriptor() { return UniqueFd(::open("/", O_PATH | O_CLOEXEC)); }

ShareEntry::ShareEntry(std::shared_ptr<ListenerCommon> of_all, std::string name, UniqueFd bell)
    : common(std::move(of_all)),
      share(std::move(name)),
      connections(common->crowd, common->bounds, common->shares.find(share)->share.owner_uid),
      bell_of_tenants(std::move(bell)),
      generation(common->shares.find(share)->generation) {}

void ShareEntry::lied(const identity::Peer& peer, const std::string& what) const {
  if (common->events.lied) common->events.lied(share, peer, what);
}

void ShareEntry::tell_trouble(const std::string& what) const {
  if (common->events.trouble) common->events.trouble("the door of the share '" + share + "': " + what);
}

std::optional<ShareEntry::Shut> ShareEntry::shut_to(const identity::Peer& peer) const {
  const LiveShare* live = common->shares.find(share);
  if (closed && live != nullptr && live->generation == generation)
    return Shut{ledger::Refusal::busy, "the door of the share '" + share + "' is being opened again: try again"};
  if (closed) return Shut{ledger::Refusal::share_ending, "the share '" + share + "' has been removed"};
  if (live == nullptr || live->pages == nullptr || live->pages->truncated())
    return Shut{ledger::Refusal::share_ending, "the share '" + share + "' cannot be used"};
  const Visitor visitor{peer.uid, peer.gid, peer.groups, peer.user_namespace_owner};
  if (const auto allowed = may_enter(live->share, visitor); !allowed)
    return Shut{ledger::Refusal::not_allowed, allowed.error().message};
  return std::nullopt;
}

std::optional<ShareEntry::Shut> ShareEntry::shut_to_newcomers() const {
  const LiveShare* live = common->shares.find(share);
  if (has_ended(live->share, lease_now_s()))
    return Shut{ledger::Refusal::share_ending,
                "share '" + share + "' has expired; its owner can extend it: headgate share extend " + share + " 1h"};
  if (ledger::is_draining(live->pages->policy()))
    return Shut{ledger::Refusal::share_ending, std::string(ledger::kDrainingWords)};
  return std::nullopt;
}

void ShareEntry::reconsider() {
  for (const auto& one : asking) {
    auto shut = shut_to(one->peer);
    if (!shut) shut = shut_to_newcomers();
    if (shut) one->wake(shut->why);
    else if (common->shares.find(share)->share.admit == Admit::now) one->wake("the share asks no more, and it is in");
  }
}

}  // namespace headgate::tenancy
