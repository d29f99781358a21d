#include "node/share_rights.hpp"

#include <sys/stat.h>

#include <algorithm>

#include "base/units.hpp"
#include "base/user_name.hpp"

namespace headgate::node {
namespace {

// Returns whether the views show the share by its pages only; no operation can change it.
bool has_pages_only(const tenancy::Shares& shares, const std::string& name, const Caller& caller) {
  struct stat directory{};
  return tenancy::check_name(name) && ::lstat(shares.directory(name).c_str(), &directory) == 0 &&
         S_ISDIR(directory.st_mode) && caller.owns(directory.st_uid);
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

bool have_a_gpu_in_common(const tenancy::Share& a, const tenancy::Share& b) {
  return std::ranges::any_of(a.devices, [&](const auto& device) { return device_on(b, device.uuid) != nullptr; });
}

using schedule::Policy;

bool keeps(Policy policy, const tenancy::DeviceShare& device) {
  if (policy == Policy::priority) return device.priority_class != tenancy::Class::best_effort;
  return policy == Policy::fair;
}

bool is_promised(const tenancy::Share& share, const tenancy::DeviceShare& device) {
  return !share.overcommit && device.guarantee_ppm > 0;
}

}  // namespace

Result<tenancy::LiveShare*> changeable(ManagedShares& managed, const std::string& name, const Caller& caller) {
  tenancy::Shares& shares = managed.shares;
  tenancy::LiveShare* const found = shares.find(name);
  if (found != nullptr && caller.owns(found->share.owner_uid)) return found;
  if (found != nullptr && caller.sees(found->share.owner_uid, found->share.users, found->share.groups))
    return fail(
        ErrorCode::denied,
        "the share '" + name + "' is " + user_name(found->share.owner_uid) + "'s: you may use it, and not change it",
        "its owner and administrators may");
  if (found == nullptr && has_pages_only(shares, name, caller))
    return fail(ErrorCode::not_found,
                "the share '" + name + "' is known by its pages in " + shares.directory(name) +
                    " alone, and is not in the database: of `headgate run` without headgated, or the database was lost",
                "it goes with its pages: end its programs, then rm -r " + shares.directory(name));
  // A caller that may not see a share gets the same answer as for one that does not exist.
  std::string known;
  for (const auto& [other, live] : shares.list())
    if (caller.owns(live.share.owner_uid)) known += (known.empty() ? "" : ", ") + other;
  return fail(ErrorCode::not_found, "there is no share '" + tenancy::escape_untrusted(name) + "' of yours",
              known.empty() ? "make one: headgate share create NAME" : "there are: " + known);
}

Result<void> check_name_is_free(const ManagedShares& managed, const std::string& name, const Caller& caller) {
  const auto live = managed.shares.list().find(name);
  if (live == managed.shares.list().end()) return {};
  return fail(ErrorCode::conflict, "there is a share '" + name + "' already",
              caller.owns(live->second.share.owner_uid)
                  ? "'headgate share set' changes it"
                  : "it is another user's: choose another name (of a run: --name)");
}

Result<void> may_have_one_more(const ManagedShares& managed, std::size_t waiting, const Caller& caller) {
  if (!caller.known() && !caller.administrator)
    return fail(ErrorCode::denied, "an unknown user makes no share",
                "ask over the control socket, or show the token of the daemon's token file");
  const auto& list = managed.shares.list();
  if (list.size() >= tenancy::kMaxShares)
    return fail(ErrorCode::no_capacity, "this node has " + std::to_string(list.size()) + " shares, and takes no more",
                "remove one");
  if (caller.administrator) return {};
  TRY(managed.shares.runtime().check_room(1 + tenancy::RuntimeDirectory::kKeptForAdministrators));
  const tenancy::Share of_caller{.name = {}, .owner_uid = caller.uid, .owner_gids = {}, .devices = {}};
  const auto quotas = tenancy::holding(of_caller, managed.shares.quotas());
  if (!quotas.empty() && quotas.front().shares) return {};  // a quota counts them
  const auto own = waiting + static_cast<std::size_t>(std::ranges::count_if(
                                 list, [&](const auto& entry) { return entry.second.share.owner_uid == caller.uid; }));
  if (own < managed.options.shares_per_user) return {};
  return fail(ErrorCode::denied,
              "you have " + std::to_string(own) +
                  (own == 1 ? " share or request for one" : " shares and requests for some") +
                  ", which is the most that a user may have here",
              "remove one, or ask an administrator for a quota of more (headgate quota set --shares), or for a larger "
              "node.shares_per_user");
}

// An overcommitted share takes room on the card from what was committed: its owner may change all but its devices.
Result<void> may_overcommit(const tenancy::Share* before, const tenancy::Share& wanted, const Caller& caller) {
  const bool as_before = before != nullptr && before->overcommit && before->devices == wanted.devices;
  if (!wanted.overcommit || caller.administrator || as_before) return {};
  return fail(ErrorCode::denied,
              "only an administrator may overcommit a card, or change an overcommitted share's limits",
              "root, or the group of the control socket; or a share that fits: headgate free");
}

Result<void> may_have_rank(const tenancy::Share* before, const tenancy::Share& wanted,
                           const std::vector<tenancy::Quota>& all_quotas, const Caller& caller) {
  if (caller.administrator) return {};
  const auto quotas = tenancy::holding(wanted, all_quotas);
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

void fit_to_quotas(const ShareRequest& order, const std::vector<tenancy::Quota>& all_quotas, tenancy::Share& share) {
  const auto quotas = tenancy::holding(share, all_quotas);
  const auto weight = least(std::span(quotas), &tenancy::Quota::weight);
  const auto highest = least(std::span(quotas), &tenancy::Quota::highest_class);
  for (tenancy::DeviceShare& device : share.devices) {
    if (!order.weight && weight) device.weight = std::min(device.weight, *weight);
    if (!order.priority_class && highest) device.priority_class = std::min(device.priority_class, *highest);
  }
}

// A process can give up groups (in a user namespace, by newgrp), and with them their quotas, so those in the system's
// directory count too. If the directory does not answer and there is a group quota, the request fails.
Result<std::vector<std::uint32_t>> all_groups_of(const Caller& caller, const UserDirectory& directory,
                                                 const std::vector<tenancy::Quota>& quotas) {
  std::vector<std::uint32_t> all = caller.gids;
  if (caller.known()) {
    auto more = directory.groups_of(caller.uid);
    const bool matters =
        std::ranges::find(quotas, tenancy::Quota::Subject::group, &tenancy::Quota::subject) != quotas.end();
    if (!more && matters) return std::unexpected(std::move(more.error()));
    if (more) all.insert(all.end(), more->begin(), more->end());
  }
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  return all;
}

Result<void> fits_beside(const tenancy::Share& wanted, const std::vector<tenancy::Share>& others,
                         const std::set<std::string>& for_all) {
  using tenancy::Isolation;
  for (const tenancy::Share& other : others) {
    if (other.name == wanted.name || !have_a_gpu_in_common(wanted, other)) continue;
    const bool any_mps = wanted.isolation == Isolation::mps || other.isolation == Isolation::mps;
    const std::string what =
        "share '" + wanted.name + "' (isolation " + std::string(tenancy::isolation_word(wanted.isolation)) + "): ";
    if (any_mps && wanted.isolation != other.isolation)
      return fail(
          ErrorCode::conflict,
          what + (other.owner_uid == wanted.owner_uid ? "the share '" + other.name + "'" : "another user's share") +
              " of isolation " + std::string(tenancy::isolation_word(other.isolation)) +
              " is on its GPU, and mps.exclusive leaves the GPU to one kind",
          "name another GPU, or create it with --isolation=" + std::string(tenancy::isolation_word(other.isolation)));
    if (any_mps && wanted.owner_uid != other.owner_uid && !for_all.contains(wanted.devices.front().uuid))
      return fail(ErrorCode::conflict,
                  what + "another user's share under MPS is on its GPU, and mps.exclusive leaves the GPU to one user",
                  "name another GPU (--gpu)");
  }
  return {};
}

std::vector<VoidPromise> voided_by_policy(std::span<const tenancy::Share> shares, const std::string& uuid,
                                          Policy before, Policy after) {
  std::vector<VoidPromise> all;
  std::size_t on_it = 0;
  for (const tenancy::Share& share : shares) {
    const tenancy::DeviceShare* const device = device_on(share, uuid);
    if (device == nullptr) continue;
    ++on_it;
    if (is_promised(share, *device) && keeps(before, *device) && !keeps(after, *device))
      all.push_back({share.name, uuid, device->guarantee_ppm});
  }
  return on_it > 1 ? all : std::vector<VoidPromise>();
}

std::vector<VoidPromise> voided_by_class(const tenancy::Share* before, const tenancy::Share& wanted,
                                         const PolicyOf& policy) {
  const auto is_void = [](const tenancy::Share& share, const tenancy::DeviceShare& device) {
    return is_promised(share, device) && !keeps(Policy::priority, device);
  };
  std::vector<VoidPromise> all;
  for (const tenancy::DeviceShare& device : wanted.devices) {
    if (policy(device.uuid) != Policy::priority || !is_void(wanted, device)) continue;
    const tenancy::DeviceShare* const had = before == nullptr ? nullptr : device_on(*before, device.uuid);
    if (had == nullptr || !is_void(*before, *had)) all.push_back({wanted.name, device.uuid, device.guarantee_ppm});
  }
  return all;
}

Result<void> need_consent(const std::string& what, const std::vector<VoidPromise>& promises, bool accepted) {
  if (promises.empty() || accepted) return {};
  std::string list;
  for (const VoidPromise& promise : promises)
    list += (list.empty() ? "" : ", ") + promise.share + " (" + percent_text(promise.guarantee_ppm) + " of " +
            promise.uuid.substr(0, 12) + ")";
  return fail(ErrorCode::conflict,
              what + ": this makes " + (promises.size() == 1 ? "a promise void: " : "promises void: ") + list,
              R"(to accept that, send "void_promises": true (headgate: --yes))");
}

}  // namespace headgate::node
