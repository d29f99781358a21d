#include "node/share_access.hpp"

#include <algorithm>

#include "base/now.hpp"
#include "base/units.hpp"
#include "base/user_name.hpp"
#include "guest/ledger/account.hpp"
#include "node/share_rights.hpp"

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

// Whole percents, never above the ceiling unless that is below 1 %.
std::uint32_t thread_percentage_of(const tenancy::Share& share) {
  std::uint32_t ceiling_ppm = 0;
  for (const auto& device : share.devices) ceiling_ppm = std::max(ceiling_ppm, device.ceiling_ppm);
  return std::clamp(ceiling_ppm / 10'000, 1u, 100u);
}

std::unexpected<Error> not_now(const std::string& name, const std::string& why, const std::string& hint) {
  return fail(ErrorCode::conflict, "the share '" + name + "' " + why, hint);
}

}  // namespace

Result<Entry> ShareAccess::entry(const std::string& name, const Caller& caller, bool stay) {
  tenancy::LiveShare* const live = managed_.shares.find(name);
  const auto member = [&](const tenancy::Share& share) {
    return caller.administrator ||
           (caller.known() && tenancy::may_enter(share, {.uid = caller.uid, .groups = caller.gids}).has_value());
  };
  if (live == nullptr || !member(live->share)) TRY(changeable(managed_, name, caller));
  if (auto trouble = managed_.shares.trouble_of(*live)) return std::unexpected(std::move(*trouble));
  TRY(policies_.check_compute_mode(live->share));
  if (stay && caller.pid != 0) {
    std::optional<tenancy::InvitedUser> invited;
    if (!caller.owns(live->share.owner_uid)) invited = {caller.uid, caller.gids};
    TRY(managed_.shares.attach_run(name, caller.pid, std::move(invited)));
  }
  Entry entry{.runtime_dir = managed_.options.runtime_dir,
              .share = name,
              .directory = managed_.shares.directory(name),
              .uuids = {},
              .simulated_dir = managed_.options.simulated_dir,
              .thread_percentage = thread_percentage_of(live->share)};
  for (const auto& device : live->share.devices) entry.uuids.push_back(device.uuid);
  return entry;
}

Result<void> ShareAccess::check_container(const std::string& name, const tenancy::Visitor& user, const Caller& caller) {
  const tenancy::LiveShare* const live = managed_.shares.find(name);
  const auto may = live == nullptr ? Result<void>() : tenancy::may_enter(live->share, user);
  if (live == nullptr || (!may && !caller.administrator)) TRY(changeable(managed_, name, caller));
  if (!may)
    return fail(ErrorCode::denied, may.error().message,
                "its owner, " + user_name(live->share.owner_uid) +
                    ", lets the container's user in: headgate share set " + name + " --user UID");
  if (auto trouble = managed_.shares.trouble_of(*live)) return std::unexpected(std::move(*trouble));
  const ledger::PolicyPage& policy = live->pages->policy();
  if (tenancy::has_ended(live->share, lease_now_s()))
    return not_now(name, "has expired", "its owner can extend it: headgate share extend " + name + " 1h");
  if (ledger::is_draining(policy)) return not_now(name, "is being drained", "headgate share resume " + name);
  if (ledger::is_paused(policy)) return not_now(name, "is paused", "headgate share resume " + name);
  if (managed_.processes_in(name) >= ledger::kMaxSlots)
    return not_now(name, "is full: it has " + std::to_string(ledger::kMaxSlots) + " processes", "headgate ps");
  if (const std::string full = full_memory(*live); !full.empty())
    return not_now(name, "is full: " + full, "headgate ps lists what holds it");
  return {};
}

std::optional<MpsShare> ShareAccess::mps_share(const std::string& name) const {
  const auto found = managed_.shares.list().find(name);
  if (found == managed_.shares.list().end()) return std::nullopt;
  const tenancy::Share& share = found->second.share;
  if (share.isolation != tenancy::Isolation::mps || share.devices.empty()) return std::nullopt;
  const tenancy::DeviceShare& device = share.devices.front();
  return MpsShare{.name = name,
                  .uuid = device.uuid,
                  .owner_uid = share.owner_uid,
                  .thread_percentage = thread_percentage_of(share),
                  .memory_limit_bytes = device.memory_limit_bytes,
                  .low_priority = device.priority_class == tenancy::Class::best_effort,
                  .for_all = managed_.options.mps_for_all.contains(device.uuid)};
}

}  // namespace headgate::node
