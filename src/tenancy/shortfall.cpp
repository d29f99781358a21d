#include "tenancy/shortfall.hpp"

#include <algorithm>

#include "base/saturating_math.hpp"

namespace headgate::tenancy {
namespace {

std::uint64_t past(std::uint64_t what, std::uint64_t limit) { return what - std::min(what, limit); }

}  // namespace

std::vector<Committed> committed_of(const Books& books) {
  std::vector<Committed> all;
  for (const Card& card : books.cards) all.push_back(committed_on(card, books));
  return all;
}

void commit(const Share& share, std::span<const Card> cards, const Reserve& reserve, std::span<Committed> committed) {
  if (share.overcommit) return;
  for (const DeviceShare& device : share.devices) {
    const auto card = std::ranges::find(cards, device.uuid, &Card::uuid);
    if (card == cards.end()) continue;
    Committed& there = committed[static_cast<std::size_t>(card - cards.begin())];
    there.memory_bytes = saturating_add(there.memory_bytes, asked_of(device, *card, reserve));
    there.guarantee_ppm += promised_of(device);
    ++there.shares;
  }
}

std::vector<Shortfall> shortfall(const Share& wanted, std::span<const Card> cards, const Reserve& reserve,
                                 std::span<const Committed> committed) {
  std::vector<Shortfall> all;
  if (wanted.overcommit) return all;
  for (const DeviceShare& device : wanted.devices) {
    const auto card = std::ranges::find(cards, device.uuid, &Card::uuid);
    if (card == cards.end()) continue;
    const Committed& there = committed[static_cast<std::size_t>(card - cards.begin())];
    const std::uint64_t needed = saturating_add(kept_beside(there, reserve), asked_of(device, *card, reserve));
    const Shortfall lack{device.uuid, card->called(), past(needed, card->memory_total_bytes),
                         past(there.guarantee_ppm + promised_of(device), ledger::kWholeGpu)};
    if (lack.memory_bytes > 0 || lack.guarantee_ppm > 0) all.push_back(lack);
  }
  return all;
}

bool overtakes(const Share& later, const Share& earlier, std::span<const Card> cards, const Reserve& reserve,
               std::span<const Committed> committed) {
  std::vector<Committed> with(committed.begin(), committed.end());
  commit(later, cards, reserve, with);
  const auto before = shortfall(earlier, cards, reserve, committed);
  return std::ranges::any_of(shortfall(earlier, cards, reserve, with), [&](const Shortfall& lack) {
    const auto had = std::ranges::find(before, lack.uuid, &Shortfall::uuid);
    return had == before.end() || lack.memory_bytes > had->memory_bytes || lack.guarantee_ppm > had->guarantee_ppm;
  });
}

}  // namespace headgate::tenancy
