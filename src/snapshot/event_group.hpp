// Groups of events that compete for room: one per owner, whatever the names of the owner's shares.
#pragma once

#include <compare>
#include <string>

#include "snapshot/snapshot.hpp"

namespace headgate::snapshot {

// Audit findings form their own group, so that other events of the accused cannot displace them.
struct EventGroup {
  bool finding = false;
  std::string owner;  // "uid 1000"; "not known" if a share's owner is unknown; empty: the node's events

  friend auto operator<=>(const EventGroup&, const EventGroup&) = default;
};

[[nodiscard]] bool is_finding(const std::string& kind);
[[nodiscard]] EventGroup group_of(const Event& event);

// The same in SQL, for a row with these columns: 0 or 1, and the text.
inline constexpr const char* kFindingInSql = "(kind GLOB 'audit.*' OR kind = 'share.damaged')";
inline constexpr const char* kOwnerInSql =
    "(CASE WHEN owner_uid IS NOT NULL THEN 'uid ' || owner_uid WHEN share <> '' THEN 'not known' "
    "WHEN kind GLOB 'audit.*' OR kind = 'share.damaged' THEN 'uid ' || uid ELSE '' END)";

}  // namespace headgate::snapshot
