#include "node/quota_service.hpp"

#include <algorithm>

#include "base/user_name.hpp"
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

}  // namespace

Result<tenancy::Quota> QuotaService::set(const tenancy::QuotaChange& change, Naming naming, const Caller& caller) {
  if (!caller.administrator)
    return fail(ErrorCode::denied, "only an administrator sets quotas", "root, or the group of the control socket");
  const tenancy::Quota* const found = find_quota(managed_.shares.quotas(), change.subject, change.id);
  const tenancy::Quota before = found == nullptr ? tenancy::Quota{} : *found;
  const tenancy::Quota after = tenancy::changed(naming == Naming::all ? tenancy::Quota{} : before, change);
  const std::string of = "the quota of " + whose(change.subject, change.id);
  if (tenancy::bounds_nothing(after))
    return fail(ErrorCode::usage, of + " would bound nothing",
                "headgate quota rm " + option_of(change.subject, change.id) + " takes it away");
  TRY(managed_.shares.set_quota(after));
  const std::string changes = describe_changes(before, after);
  managed_.tell("quota.set", "info", "", caller.uid,
                user_name(caller.uid) + " set " + of + ": " + (changes.empty() ? "nothing" : changes),
                shown_to(change.subject, change.id));
  return after;
}

Result<void> QuotaService::remove(Subject subject, std::uint32_t id, const Caller& caller) {
  if (!caller.administrator)
    return fail(ErrorCode::denied, "only an administrator removes quotas", "root, or the group of the control socket");
  const tenancy::Quota* const found = find_quota(managed_.shares.quotas(), subject, id);
  if (found == nullptr)
    return fail(ErrorCode::not_found, "there is no such quota", "see GET /v1/quotas (headgate quota ls)");
  const std::string changes = describe_changes(*found, {});
  TRY(managed_.shares.remove_quota(subject, id));
  managed_.tell("quota.removed", "info", "", caller.uid,
                user_name(caller.uid) + " removed the quota of " + whose(subject, id) + ": " + changes,
                shown_to(subject, id));
  return {};
}

}  // namespace headgate::node
