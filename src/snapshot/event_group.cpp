#include "snapshot/event_group.hpp"

namespace headgate::snapshot {

bool is_finding(const std::string& kind) { return kind.starts_with("audit.") || kind == "share.damaged"; }

EventGroup group_of(const Event& event) {
  EventGroup group{.finding = is_finding(event.kind), .owner = {}};
  if (event.owner_uid) group.owner = "uid " + std::to_string(*event.owner_uid);
  else if (!event.share.empty()) group.owner = "not known";
  else if (group.finding) group.owner = "uid " + std::to_string(event.uid);
  return group;
}

}  // namespace headgate::snapshot
