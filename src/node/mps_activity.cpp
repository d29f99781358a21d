#include "node/mps_activity.hpp"

namespace headgate::node {

MpsActivity::News MpsActivity::look(const std::string& uuid, std::uint32_t clients, std::uint64_t now_ns) {
  if (clients > 0) return last_seen_ns_.insert_or_assign(uuid, now_ns).second ? News::began : News::none;
  const auto known = last_seen_ns_.find(uuid);
  if (known == last_seen_ns_.end() || now_ns < known->second + kMpsGoneNs) return News::none;
  last_seen_ns_.erase(known);
  return News::ended;
}

}  // namespace headgate::node
