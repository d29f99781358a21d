// Whose events stand for each other where there is no room for all: an owner's, under whatever names its shares have.
#pragma once

#include <compare>
#include <string>

#include "snapshot/snapshot.hpp"

namespace headgate::snapshot {

// What the audit found stands apart from the rest, so that no noise of the accused hides it.
struct EventGroup {
  bool finding = false;
  std::string owner;  // "uid 1000"; "not known" of a share that nothing tells the owner of; empty: the node's own

  friend auto operator<=>(const EventGroup&, const EventGroup&) = default;
};

[[nodiscard]] bool is_finding(const std::string& kind);
[[nodiscard]] EventGroup group_of(const Event& event);

// The same of a row with these names as its columns, in SQL: 0 or 1, and the text.
inline constexpr const char* kFindingInSql = "(kind GLOB 'audit.*' OR kind = 'share.damaged')";
inline constexpr const char* kOwnerInSql =
    "(CASE WHEN owner_uid IS NOT NULL THEN 'uid ' || owner_uid WHEN share <> '' THEN 'not known' "
    "WHEN kind GLOB 'audit.*' OR kind = 'share.damaged' THEN 'uid ' || uid ELSE '' END)";

}  // namespace headgate::snapshot
