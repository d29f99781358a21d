#include "tenancy/share.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/utf8.hpp"
#include "guest/grant/environment.hpp"

namespace headgate::tenancy {
namespace {

template <std::size_t kSize>
bool copy_text(const std::string& from, char (&to)[kSize]) {
  if (from.size() >= kSize || from.contains('\0')) return false;
  std::memcpy(to, from.c_str(), from.size() + 1);
  return true;
}

bool holds(std::span<const std::uint32_t> list, std::uint32_t id) { return std::ranges::find(list, id) != list.end(); }

}  // namespace

std::string_view class_word(Class priority_class) {
  return priority_class == Class::best_effort ? "best-effort" : priority_class == Class::latency ? "latency" : "normal";
}

std::string_view isolation_word(Isolation isolation) {
  return isolation == Isolation::mps ? "mps" : isolation == Isolation::timeslice ? "timeslice" : "hook";
}

std::string escape_untrusted(std::string_view text, std::size_t shown) {
  return printable(text, shown) + (text.size() > shown ? "..." : "");
}

const DeviceShare* device_on(const Share& share, std::string_view uuid) {
  const auto found = std::ranges::find(share.devices, uuid, &DeviceShare::uuid);
  return found == share.devices.end() ? nullptr : &*found;
}

Result<void> check_name(std::string_view name) {
  if (grant::is_share_name(name)) return {};
  return fail(ErrorCode::usage, "'" + escape_untrusted(name) + "' cannot name a share",
              "accepted: " + std::string(grant::accepted(grant::Syntax::share_name)));
}

Result<ledger::ShareGrant> to_grant(const Share& share) {
  TRY(check_name(share.name));
  ledger::ShareGrant grant;
  copy_text(share.name, grant.name);
  grant.fail_policy = share.fail_policy;
  grant.device_count = static_cast<std::uint32_t>(share.devices.size());
  if (share.devices.size() > ledger::kMaxDevices) {
    return fail(ErrorCode::usage,
                "the share '" + share.name + "' names " + std::to_string(share.devices.size()) + " GPUs",
                "accepted: 1 to " + std::to_string(ledger::kMaxDevices));
  }
  for (std::size_t i = 0; i < share.devices.size(); ++i) {
    const DeviceShare& from = share.devices[i];
    ledger::DeviceGrant& to = grant.devices[i];
    if (!copy_text(from.uuid, to.uuid)) {
      return fail(ErrorCode::usage, "'" + escape_untrusted(from.uuid) + "' is no GPU's UUID",
                  "accepted: such as GPU-9c2f...");
    }
    to.memory_limit_bytes = from.memory_limit_bytes.value_or(ledger::kNoMemoryLimit);
    to.host_limit_bytes = from.host_limit_bytes;
    to.oversubscribed = share.oversubscribe && from.host_limit_bytes != 0;
    to.compute_ceiling_ppm = from.ceiling_ppm;
    // An overcommitted share is promised nothing.
    to.compute_guarantee_ppm = share.overcommit ? 0 : from.guarantee_ppm;
    to.weight = from.weight;
    to.priority_class = static_cast<std::uint32_t>(from.priority_class);
  }
  if (const ledger::PageFault bad = ledger::check_grant(grant)) return std::unexpected(page_error(bad, {}, share.name));
  return grant;
}

std::optional<std::int64_t> ends_at_s(const Share& share) {
  if (!share.ttl) return std::nullopt;
  std::int64_t end = 0;
  if (__builtin_add_overflow(share.created_at_s, share.ttl->count(), &end))
    return std::numeric_limits<std::int64_t>::max();
  return end;
}

bool has_ended(const Share& share, std::int64_t now_unix_s) {
  const auto end = ends_at_s(share);
  return end && *end <= now_unix_s;
}

Error page_error(const ledger::PageFault& fault, const std::string& base, const std::string& name) {
  std::array<char, 512> text{};
  ledger::explain(fault, text.data(), text.size(), base.empty() ? nullptr : base.c_str());
  Error error{ErrorCode::failed, "the share '" + escape_untrusted(name) + "': " + text.data(), {}};
  switch (fault.error) {
    using enum ledger::PageError;
    case bad_name:
    case bad_device_count:
    case bad_uuid:
    case duplicate_uuid:
    case bad_memory_limit:
    case bad_ceiling:
    case bad_guarantee:
    case bad_weight:
    case bad_class:
    case already_exists:
    case different_values: error.code = ErrorCode::usage; break;
    case no_space:
    case slots_full: error.code = ErrorCode::no_capacity; break;
    case no_permission:
    case foreign_owner:
    case open_permissions:
    case read_only: error.code = ErrorCode::denied; break;
    case pages_newer:
    case pages_older: error.code = ErrorCode::unsupported; break;
    default: break;
  }
  return error;
}

Result<void> may_enter(const Share& share, const Visitor& visitor) {
  const auto is_user = [&](std::uint32_t uid) { return uid == share.owner_uid || holds(share.users, uid); };
  if (share.everyone || is_user(visitor.uid) || holds(share.groups, visitor.gid)) return {};
  if (std::ranges::any_of(visitor.groups, [&](std::uint32_t gid) { return holds(share.groups, gid); })) return {};
  if (visitor.user_namespace_owner && is_user(*visitor.user_namespace_owner)) return {};
  const std::string whose = visitor.user_namespace_owner
                                ? ", in a user namespace of uid " + std::to_string(*visitor.user_namespace_owner) + ","
                                : "";
  return fail(ErrorCode::denied,
              "uid " + std::to_string(visitor.uid) + whose + " may not use the share '" + share.name + "'",
              "its owner can let users and groups in");
}

}  // namespace headgate::tenancy
