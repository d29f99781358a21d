#include "base/now.hpp"
#include "base/units.hpp"
#include "base/user_name.hpp"
#include "guest/ledger/account.hpp"
#include "node/node.hpp"
#include "tenancy/access.hpp"

namespace headgate::node {
namespace {

// Of the account that is full: the container's first allocation would be refused.
std::string full_memory(const tenancy::LiveShare& live) {
  const ledger::PolicyPage& policy = live.pages->policy();
  for (std::uint32_t i = 0; i < live.share.devices.size(); ++i) {
    const std::uint64_t limit = policy.devices[i].memory_limit_bytes.load(std::memory_order_relaxed);
    if (limit == ledger::kNoMemoryLimit || ledger::used_bytes(live.pages->usage(), i) < limit) continue;
    if (policy.devices[i].host_limit_bytes.load(std::memory_order_relaxed) == 0)
      return "its " + exact_bytes_text(limit) + " on " + live.share.devices[i].uuid + " are in use";
  }
  return {};
}

std::unexpected<Error> not_now(const std::string& name, const std::string& why, const std::string& hint) {
  return fail(ErrorCode::conflict, "the share '" + name + "' " + why, hint);
}

}  // namespace

Result<void> Node::check_container(const std::string& name, const tenancy::Visitor& user, const Caller& caller) {
  const tenancy::LiveShare* const live = shares_.find(name);
  const auto may = live == nullptr ? Result<void>() : tenancy::may_enter(live->share, user);
  if (live == nullptr || (!may && !caller.administrator)) TRY(changeable(name, caller));
  if (!may)
    return fail(ErrorCode::denied, may.error().message,
                "its owner, " + user_name(live->share.owner_uid) +
                    ", lets the container's user in: headgate share set " + name + " --user UID");
  if (auto trouble = shares_.trouble_of(*live)) return std::unexpected(std::move(*trouble));
  const ledger::PolicyPage& policy = live->pages->policy();
  if (tenancy::has_ended(live->share, lease_now_s()))
    return not_now(name, "has expired", "its owner can extend it: headgate share extend " + name + " 1h");
  if (ledger::is_draining(policy)) return not_now(name, "is being drained", "headgate share resume " + name);
  if (ledger::is_paused(policy)) return not_now(name, "is paused", "headgate share resume " + name);
  if (tenants_ != nullptr && tenants_->count_in(name) >= ledger::kMaxSlots)
    return not_now(name, "is full: it has " + std::to_string(ledger::kMaxSlots) + " processes", "headgate ps");
  if (const std::string full = full_memory(*live); !full.empty())
    return not_now(name, "is full: " + full, "headgate ps lists what holds it");
  return {};
}

}  // namespace headgate::node
