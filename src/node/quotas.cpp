// Quotas: how they are set, and what a non-administrator may ask for beside them.
#include <algorithm>

#include "base/user_name.hpp"
#include "node/node.hpp"
#include "node/share_text.hpp"

namespace headgate::node {
namespace {

using Subject = tenancy::Quota::Subject;

// Returns the command's option for it.
std::string option_of(Subject subject, std::uint32_t id) {
  return subject == Subject::every_user ? "--everyone"
                                        : (subject == Subject::user ? "--user " : "--group ") + std::to_string(id);
}

std::string whose(Subject subject, std::uint32_t id) {
  if (subject == Subject::every_user) return "everyone";
  return subject == Subject::user ? "the user " + user_name(id) : "the group " + group_name(id);
}

// Returns which user sees the event beside administrators: of a user's quota that user; of everyone's, everyone.
std::optional<std::uint32_t> shown_to(Subject subject, std::uint32_t id) {
  if (subject == Subject::every_user) return std::nullopt;
  return subject == Subject::user ? id : 0;
}

const tenancy::Quota* find_quota(const std::vector<tenancy::Quota>& all, Subject subject, std::uint32_t id) {
  const auto found = std::ranges::find_if(
      all, [&](const tenancy::Quota& quota) { return quota.subject == subject && quota.id == id; });
  return found == all.end() ? nullptr : &*found;
}

// Returns the least limit that the quotas set; empty: none sets it.
template <typename T>
std::optional<T> least(std::span<const tenancy::Quota> quotas, std::optional<T> tenancy::Quota::* field) {
  std::optional<T> found;
  for (const tenancy::Quota& quota : quotas)
    if (quota.*field && (!found || *(quota.*field) < *found)) found = quota.*field;
  return found;
}

std::string more_needs(const tenancy::Share& share, const std::string& option) {
  return "; more needs an administrator (root, or the group of the control socket) to make or set the share, or a "
         "quota that says so: headgate quota set --user " +
         std::to_string(share.owner_uid) + " " + option;
}

}  // namespace

void Node::fit_to_quotas(const ShareRequest& order, tenancy::Share& share) const {
  const auto quotas = tenancy::holding(share, shares_.quotas());
  const auto weight = least(std::span(quotas), &tenancy::Quota::weight);
  const auto highest = least(std::span(quotas), &tenancy::Quota::highest_class);
  for (tenancy::DeviceShare& device : share.devices) {
    if (!order.weight && weight) device.weight = std::min(device.weight, *weight);
    if (!order.priority_class && highest) device.priority_class = std::min(device.priority_class, *highest);
  }
}

Result<void> Node::may_have_rank(const tenancy::Share* before, const tenancy::Share& wanted,
                                 const Caller& caller) const {
  if (caller.administrator) return {};
  const auto quotas = tenancy::holding(wanted, shares_.quotas());
  const bool weight_said = least(std::span(quotas), &tenancy::Quota::weight).has_value();
  const bool class_said = least(std::span(quotas), &tenancy::Quota::highest_class).has_value();
  for (std::size_t i = 0; i < wanted.devices.size(); ++i) {
    const tenancy::DeviceShare& device = wanted.devices[i];
    // What an administrator gave before stays.
    const tenancy::DeviceShare had = before == nullptr ? tenancy::DeviceShare{} : before->devices[i];
    if (!weight_said && device.weight > std::max(had.weight, tenancy::kDefaultWeight)) {
      const std::string asked = std::to_string(device.weight);
      return fail(
          ErrorCode::denied, "weight '" + asked + "' is more than a user may take for himself",
          "accepted: 1 to " + std::to_string(tenancy::kDefaultWeight) + more_needs(wanted, "--weight " + asked));
    }
    if (!class_said && device.priority_class > std::max(had.priority_class, tenancy::kDefaultClass)) {
      const std::string asked(tenancy::class_word(device.priority_class));
      return fail(ErrorCode::denied, "class '" + asked + "' is for administrators: such a share is never kept waiting",
                  "accepted: best-effort, normal" + more_needs(wanted, "--class " + asked));
    }
  }
  return {};
}

Result<tenancy::Quota> Node::set_quota(const tenancy::QuotaChange& change, Naming naming, const Caller& caller) {
  if (!caller.administrator)
    return fail(ErrorCode::denied, "only an administrator sets quotas", "root, or the group of the control socket");
  const tenancy::Quota* const found = find_quota(shares_.quotas(), change.subject, change.id);
  const tenancy::Quota before = found == nullptr ? tenancy::Quota{} : *found;
  const tenancy::Quota after = tenancy::changed(naming == Naming::all ? tenancy::Quota{} : before, change);
  const std::string of = "the quota of " + whose(change.subject, change.id);
  if (tenancy::bounds_nothing(after))
    return fail(ErrorCode::usage, of + " would bound nothing",
                "headgate quota rm " + option_of(change.subject, change.id) + " takes it away");
  if (auto done = shares_.set_quota(after); !done) return std::unexpected(done.error());
  const std::string changes = describe_changes(before, after);
  tell("quota.set", "info", "", caller.uid,
       user_name(caller.uid) + " set " + of + ": " + (changes.empty() ? "nothing that it did not say" : changes),
       shown_to(change.subject, change.id));
  return after;
}

Result<void> Node::remove_quota(Subject subject, std::uint32_t id, const Caller& caller) {
  if (!caller.administrator)
    return fail(ErrorCode::denied, "only an administrator removes quotas", "root, or the group of the control socket");
  const tenancy::Quota* const found = find_quota(shares_.quotas(), subject, id);
  if (found == nullptr)
    return fail(ErrorCode::not_found, "there is no such quota", "see GET /v1/quotas (headgate quota ls)");
  const std::string changes = describe_changes(*found, {});
  if (auto done = shares_.remove_quota(subject, id); !done) return done;
  tell("quota.removed", "info", "", caller.uid,
       user_name(caller.uid) + " removed the quota of " + whose(subject, id) + ": " + changes, shown_to(subject, id));
  return {};
}

}  // namespace headgate::node
