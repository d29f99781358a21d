#include "node/share_service.hpp"

#include <algorithm>

#include "base/now.hpp"
#include "base/units.hpp"
#include "base/user_name.hpp"
#include "node/share_rights.hpp"
#include "node/share_text.hpp"

namespace headgate::node {

void ShareService::tell(const char* kind, const std::string& name, const Caller& caller, const std::string& did) {
  managed_.tell(kind, "info", name, caller.uid, user_name(caller.uid) + " " + did);
}

// Returns the share of a request, if the caller may have such a one at all; does not look for room.
Result<tenancy::Share> ShareService::new_share(const ShareRequest& order, const Caller& caller,
                                               const Gpus& gpus) const {
  // Check it first: look nothing up for a caller that may not have a share.
  TRY(may_have_one_more(managed_, queue_.waiting_of(caller.uid), caller));
  const UserDirectory directory = system_directory();
  const tenancy::Shares& shares = managed_.shares;
  tenancy::Share share = TRY(share_of(order, nullptr, gpus, directory));
  lay_past_the_card(order, shares.node().cards, shares.node().reserve, share);
  share.owner_uid = caller.uid;
  TRY(may_overcommit(nullptr, share, caller));
  share.owner_gids = TRY(all_groups_of(caller, directory, shares.quotas()));
  fit_to_quotas(order, shares.quotas(), share);
  TRY(may_have_rank(nullptr, share, shares.quotas(), caller));
  if (managed_.options.mps_exclusive) TRY(fits_beside(share, shares.rows(), managed_.options.mps_for_all));
  return share;
}

Result<tenancy::Share> ShareService::changed_share(const std::string& name, const ShareRequest& order,
                                                   const Caller& caller, const Gpus& gpus) const {
  const tenancy::LiveShare* const live = TRY(changeable(managed_, name, caller));
  if (order.name && *order.name != name)
    return fail(ErrorCode::unsupported, "a share keeps its name", "create another one");
  const tenancy::Shares& shares = managed_.shares;
  tenancy::Share wanted = TRY(share_of(order, &live->share, gpus, system_directory()));
  lay_past_the_card(order, shares.node().cards, shares.node().reserve, wanted);
  TRY(may_overcommit(&live->share, wanted, caller));
  TRY(may_have_rank(&live->share, wanted, shares.quotas(), caller));
  TRY(check_promise(order, &live->share, wanted));
  const std::int64_t now = lease_now_s();
  if (order.ttl && tenancy::has_ended(wanted, now))
    return fail(ErrorCode::usage,
                "a time to live of " + *order.ttl + " is over already: it counts from when the share was made, " +
                    duration_text(static_cast<std::uint64_t>(now - live->share.created_at_s) * 1'000'000'000) + " ago",
                "a longer one; or headgate share drain " + name + ", which admits no process from now on");
  return wanted;
}

// For class best-effort under the policy priority. Errors: conflict.
Result<void> ShareService::check_promise(const ShareRequest& order, const tenancy::Share* before,
                                         const tenancy::Share& wanted) const {
  // A run's share is removed with its program, and `headgate run` does not ask for consent.
  if (wanted.until_empty) return {};
  return need_consent(
      "share '" + wanted.name +
          "': of class best-effort, on a GPU whose policy is priority, it has no more than shares of higher classes "
          "leave",
      voided_by_class(before, wanted, [this](const std::string& uuid) { return policies_.of(uuid); }),
      order.void_promises);
}

Result<void> ShareService::create(const ShareRequest& order, const Caller& caller, const Gpus& gpus) {
  tenancy::Share share = TRY(new_share(order, caller, gpus));
  TRY(check_name_is_free(managed_, share.name, caller));
  TRY(queue_.check_turn(share, caller));
  TRY(check_promise(order, nullptr, share));
  return managed_.make(std::move(share));
}

Result<std::uint64_t> ShareService::wait_for_room(const ShareRequest& order, const Caller& caller, const Gpus& gpus,
                                                  Queue::Events events) {
  tenancy::Share share = TRY(new_share(order, caller, gpus));
  if (managed_.shares.find(share.name) != nullptr)
    return fail(ErrorCode::conflict, "there is a share '" + share.name + "' already", "choose another name");
  return queue_.enter(std::move(share), caller, std::move(events));
}

Result<void> ShareService::set(const std::string& name, const ShareRequest& order, const Caller& caller,
                               const Gpus& gpus) {
  return set({{name, order}}, caller, gpus);
}

Result<void> ShareService::set(const std::vector<NamedRequest>& orders, const Caller& caller, const Gpus& gpus) {
  std::vector<tenancy::Share> all;
  std::vector<std::string> changes;
  for (const auto& [name, order] : orders) {
    if (std::ranges::find(all, name, &tenancy::Share::name) != all.end())
      return fail(ErrorCode::usage, "the share '" + name + "' is named twice", "name each share once");
    all.push_back(TRY(changed_share(name, order, caller, gpus)));
    changes.push_back(describe_changes(managed_.shares.find(name)->share, all.back()));
  }
  TRY(managed_.shares.set(all));
  const std::int64_t now = lease_now_s();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const tenancy::Share& wanted = all[i];
    tell("share.set", wanted.name, caller,
         "changed the share " + wanted.name + ": " +
             (changes[i].empty() ? "nothing; it still has " + describe(wanted) : changes[i]));
    if (!tenancy::has_ended(wanted, now)) tenancy::Shares::set_time_over(*managed_.shares.find(wanted.name), false);
    managed_.divide_unattended(wanted.name);
    managed_.changed(wanted.name);
  }
  queue_.serve();
  return {};
}

Result<void> ShareService::remove(const std::string& name, const Caller& caller) {
  const tenancy::Share before = TRY(changeable(managed_, name, caller))->share;
  reporter_.look_for_refusals(name);
  TRY(managed_.shares.remove(name, caller.pid));
  managed_.forget(name);
  managed_.divide_unattended(before.devices);
  managed_.tell("share.removed", "info", name, caller.uid, user_name(caller.uid) + " removed the share " + name,
                before.owner_uid);
  queue_.serve();
  return {};
}

// Returns whether the operation changed anything; what was so already is not reported.
Result<bool> ShareService::command(const std::string& name, const Caller& caller,
                                   Result<void> (tenancy::Shares::*operation)(const std::string&)) {
  const tenancy::LiveShare* const live = TRY(changeable(managed_, name, caller));
  const ledger::Command before = live->said;
  TRY((managed_.shares.*operation)(name));
  return live->said != before;
}

Result<void> ShareService::pause(const std::string& name, const Caller& caller) {
  if (!TRY(command(name, caller, &tenancy::Shares::pause))) return {};
  managed_.divide_unattended(name);
  tell("share.paused", name, caller, "paused the share " + name);
  return {};
}

Result<void> ShareService::resume(const std::string& name, const Caller& caller) {
  const tenancy::LiveShare* const live = TRY(changeable(managed_, name, caller));
  if (live->time_over && !live->paused())
    return fail(ErrorCode::usage, "share '" + name + "' has expired",
                "extend it: headgate share extend " + name + " 1h");
  if (!TRY(command(name, caller, &tenancy::Shares::resume))) return {};
  managed_.divide_unattended(name);
  tell("share.resumed", name, caller, "resumed the share " + name);
  return {};
}

Result<void> ShareService::drain(const std::string& name, const Caller& caller) {
  if (!TRY(command(name, caller, &tenancy::Shares::drain))) return {};
  managed_.changed(name);
  tell("share.draining", name, caller,
       "drained the share " + name + ": no process may join, and it gets no more memory");
  return {};
}

Result<void> ShareService::reclaim(const std::string& name, const Caller& caller) {
  TRY(changeable(managed_, name, caller));
  TRY(managed_.shares.reclaim(name));
  tell("share.reclaimed", name, caller, "asked the programs of " + name + " to free unused pool memory");
  return {};
}

}  // namespace headgate::node
