#include "tenancy/live_share.hpp"

#include <algorithm>

#include "base/saturating_math.hpp"

namespace headgate::tenancy {

bool LiveShare::paused() const { return pages != nullptr && ledger::is_paused(pages->policy()); }

bool LiveShare::distrusted() const { return !damage.empty() || (pages != nullptr && pages->truncated()); }

std::vector<Excess> past_limits(const Share& share, const LiveShare& live, const CommittedBefore& committed_before) {
  std::vector<Excess> all;
  if (live.pages == nullptr) return all;
  for (const DeviceShare& device : share.devices) {
    const auto before = committed_before.find(device.uuid);
    if (before == committed_before.end() || !device.memory_limit_bytes) continue;
    // A damaged page proves nothing: all that was committed may still be held.
    const std::uint64_t held =
        live.distrusted() ? before->second : std::min(held_on(*live.pages, device.uuid), before->second);
    if (held > *device.memory_limit_bytes) all.push_back({share.name, device.uuid, held - *device.memory_limit_bytes});
  }
  return all;
}

CommittedBefore committed_by_account(const LiveShare& live, const std::vector<Card>& cards, const Reserve& reserve) {
  CommittedBefore all;
  for (const DeviceShare& device : live.share.devices) {
    const auto card = std::ranges::find(cards, device.uuid, &Card::uuid);
    if (card == cards.end()) continue;
    const std::uint64_t held = std::min(held_on(*live.pages, device.uuid), card->memory_total_bytes);
    if (held > saturating_add(asked_of(device, *card, reserve), reserve.context_room_bytes)) all[device.uuid] = held;
  }
  return all;
}

CommittedBefore committed_before_change(const LiveShare& live, const Share& wanted, const std::vector<Card>& cards,
                                        const Reserve& reserve) {
  CommittedBefore all = live.committed_before;
  for (const DeviceShare& device : wanted.devices) {
    const DeviceShare* const former = device_on(live.share, device.uuid);
    const auto card = std::ranges::find(cards, device.uuid, &Card::uuid);
    if (former == nullptr || card == cards.end()) continue;
    const std::uint64_t committed = asked_of(*former, *card, reserve);
    if (asked_of(device, *card, reserve) < committed) all[device.uuid] = std::max(all[device.uuid], committed);
  }
  return all;
}

}  // namespace headgate::tenancy
