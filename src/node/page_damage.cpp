#include "node/page_damage.hpp"

#include <algorithm>

#include "base/units.hpp"

namespace headgate::node {

// Returns 0 if one of its GPUs has never answered: what the share holds there may then be true.
std::uint64_t PageDamage::largest_card_of(const tenancy::Share& share) const {
  std::uint64_t largest = 0;
  for (const auto& device : share.devices) {
    const auto card = card_bytes_.find(device.uuid);
    if (card == card_bytes_.end()) return 0;
    largest = std::max(largest, card->second);
  }
  return largest;
}

// Tenants can write anything into the usage page, but a damaged one spoils only their share's account. It is not used
// any more.
void PageDamage::look(const std::string& name, tenancy::LiveShare& live, std::uint64_t now_ns) {
  tenancy::Pages& pages = *live.pages;
  const std::uint64_t grown = pages.cut_growth();
  if (!live.damage.empty()) return;
  std::string what =
      checks_[name].look(pages.policy(), pages.usage(), largest_card_of(live.share), static_cast<std::int64_t>(now_ns));
  if (what.empty()) what = live.accusation;
  if (grown > 0) what = "had grown to " + bytes_text(grown) + ", and was cut";
  if (pages.truncated()) what = "was cut short";
  if (!what.empty()) tell(name, live, what);
}

void PageDamage::tell(const std::string& name, tenancy::LiveShare& live, const std::string& what) {
  std::string whose;
  std::uint32_t pid = 0, count = 0;
  if (managed_.tenants != nullptr) {
    managed_.tenants->each([&](const tenancy::TenantProcess& tenant) {
      if (tenant.share != name) return;
      pid = tenant.process.pid;
      if (++count <= 8)
        whose += (whose.empty() ? "" : ", ") + std::to_string(pid) + " (" + tenant.process.command + ")";
    });
  }
  if (count > 8) whose += " and " + std::to_string(count - 8) + " more";
  live.damage = "the usage page of the share " + name + " " + what +
                ": no limiter writes that, so its figures are no longer to be trusted" +
                (whose.empty() ? "" : "; in it: process " + whose);
  managed_.events.add({.kind = "share.damaged",
                       .severity = "error",
                       .share = name,
                       .pid = count == 1 ? pid : 0,
                       .uid = live.share.owner_uid,
                       .owner_uid = live.share.owner_uid,
                       .text = live.damage + "; end them, then remove and create the share again"});
}

}  // namespace headgate::node
