#include "api/event_feed.hpp"

#include <string>

#include "api/visible.hpp"
#include "snapshot/json.hpp"

namespace headgate::api {

std::vector<http::Event> EventFeed::next() {
  constexpr std::size_t kSome = 64;  // so that a slow reader holds little, and what he holds is not old
  std::vector<http::Event> told;
  while (told.empty()) {
    const auto some = cursor_.next(log_, kSome);
    if (some.empty()) break;
    for (const auto& event : some) {
      if (!may_see(event, caller_)) continue;
      told.push_back({.name = event.kind, .data = snapshot::to_json(event), .id = std::to_string(event.sequence)});
    }
  }
  return told;
}

}  // namespace headgate::api
