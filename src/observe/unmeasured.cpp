#include "observe/unmeasured.hpp"

#include <algorithm>

namespace headgate::observe {
namespace {

std::uint64_t count_of(const std::vector<snapshot::HookErrors>& errors, const std::string& api) {
  const auto found = std::ranges::find(errors, api, &snapshot::HookErrors::api);
  return found == errors.end() ? 0 : found->count;
}

snapshot::Event event_of(const snapshot::Share& share, const std::string& uuid, const std::string& call) {
  return {.kind = "share.unmeasured",
          .severity = "error",
          .share = share.name,
          .uuid = uuid,
          .owner_uid = share.owner_uid,
          .text = "the GPU time of a context cannot be measured, because " + call +
                  " has failed for 100 ms: its launches " +
                  (share.fail_policy == "closed" ? "are refused" : "run unlimited") + " until it can"};
}

}  // namespace

std::vector<snapshot::Event> Unmeasured::look(const std::vector<snapshot::Share>& shares) {
  std::vector<snapshot::Event> events;
  std::map<Key, std::vector<snapshot::HookErrors>> now;
  for (const snapshot::Share& share : shares) {
    for (const snapshot::ShareDevice& device : share.devices) {
      if (device.hook_errors.empty()) continue;
      const Key key{share.generation, device.uuid};
      const auto& before = known_[key];
      const auto grown = std::ranges::find_if(device.hook_errors, [&](const snapshot::HookErrors& error) {
        return error.count > count_of(before, error.api);
      });
      if (looked_ && grown != device.hook_errors.end()) events.push_back(event_of(share, device.uuid, grown->api));
      now[key] = device.hook_errors;
    }
  }
  known_ = std::move(now);
  looked_ = true;
  return events;
}

}  // namespace headgate::observe
