#include "tenancy/admission.hpp"

#include <algorithm>

#include "base/saturating_math.hpp"
#include "base/units.hpp"
#include "base/user_name.hpp"

namespace headgate::tenancy {
namespace {

std::uint64_t excess_of(const Books& books, std::string_view share, std::string_view uuid) {
  std::uint64_t bytes = 0;
  for (const Excess& excess : books.past_limits)
    if (excess.share == share && excess.uuid == uuid) bytes = saturating_add(bytes, excess.bytes);
  return bytes;
}

// Returns what one share could have of an empty card.
std::uint64_t committable(const Card& card, const Reserve& reserve) {
  return saturating_sub(card.memory_total_bytes, saturating_add(reserve.driver_bytes, reserve.context_room_bytes));
}

Room room_beside(const Committed& committed, const Card& card, const Reserve& reserve) {
  return {saturating_sub(card.memory_total_bytes, kept_beside(committed, reserve)),
          static_cast<std::uint32_t>(saturating_sub(ledger::kWholeGpu, committed.guarantee_ppm))};
}

std::string count_text(std::uint64_t count) { return std::to_string(count) + (count == 1 ? " share" : " shares"); }

std::string sums(const Committed& committed, const Card& card, const Reserve& reserve) {
  return "the card has " + bytes_text(card.memory_total_bytes) + ", " + bytes_text(committed.memory_bytes) +
         " of it committed to " + count_text(committed.shares) + "; " + bytes_text(reserve.driver_bytes) +
         " are kept for the driver and " + bytes_text(reserve.context_room_bytes) + " for each share's contexts";
}

constexpr const char* kOvercommit = "an administrator may overcommit the card: headgate share create NAME --overcommit";

// Formats a size in the unit of the card's own size; a request can use the result.
std::string fitting_text(std::uint64_t bytes) {
  constexpr std::uint64_t kGiB = 1ull << 30;
  const std::string exact = exact_bytes_text(bytes);
  if (bytes < kGiB || bytes % kGiB == 0) return exact;
  // Rounded down: the rounded-up size would not fit.
  return std::to_string(bytes / kGiB) + "." + std::to_string(bytes % kGiB * 10 / kGiB) + " GiB (" +
         (bytes % (1u << 20) == 0 ? exact : std::to_string(bytes) + " bytes") + ")";
}

Result<void> too_little_time(const Share& wanted, const DeviceShare& device, const Card& card,
                             const Committed& committed, const Room& room, bool exists) {
  const std::string part = percent_text(promised_of(device));
  const std::string promised =
      ": " + percent_text(committed.guarantee_ppm) + " are promised to " + count_text(committed.shares);
  if (device.priority_class == Class::latency) {
    return fail(
        ErrorCode::no_capacity,
        "the share '" + wanted.name + "' asks for " + part + " of " + card.called() +
            ", its ceiling, which counts as promised because a share of class latency is never kept waiting" + promised,
        room.guarantee_ppm == 0 ? "take another class; or " + std::string(kOvercommit)
                                : "the largest ceiling that fits is " + percent_text(room.guarantee_ppm) +
                                      ": --compute and --burst lower it; or take another class; or " + kOvercommit);
  }
  return fail(ErrorCode::no_capacity,
              "the share '" + wanted.name + "' asks for a guarantee of " + part + " of " + card.called() + promised,
              "the largest that fits is " + percent_text(room.guarantee_ppm) +
                  (exists && committed.guarantee_ppm > 0
                       ? "; or lower another share in the same step: headgate share rebalance " + wanted.name +
                             "=PART OTHER=PART"
                       : "") +
                  "; or " + kOvercommit);
}

Result<void> fits(const Share& wanted, const DeviceShare& device, const Card& card, const Books& books) {
  const std::uint64_t asked = asked_of(device, card, books.reserve);
  const std::string asks = "the share '" + wanted.name + "' asks for " +
                           (device.memory_limit_bytes ? exact_bytes_text(asked) : "all the memory") + " of " +
                           card.called();
  if (asked > card.memory_total_bytes) {
    return fail(ErrorCode::no_capacity, asks + ", which has " + bytes_text(card.memory_total_bytes),
                "no share can have more than its card; --oversubscribe makes the rest of it host memory, --host-mem "
                "says how much of that");
  }
  if (wanted.overcommit) return {};
  const Committed committed = committed_on(card, books, wanted.name);
  const Room room = room_beside(committed, card, books.reserve);
  const auto former = std::ranges::find(books.shares, wanted.name, &Share::name);
  const DeviceShare* const had =
      former == books.shares.end() || former->overcommit ? nullptr : device_on(*former, card.uuid);
  const bool more_memory = had == nullptr || asked > asked_of(*had, card, books.reserve);
  const bool more_time = had == nullptr || promised_of(device) > promised_of(*had);
  if ((more_memory && asked > room.memory_bytes) || (asked == 0 && !device.memory_limit_bytes)) {
    if (!device.memory_limit_bytes && room.memory_bytes > 0)
      return fail(ErrorCode::no_capacity, asks + ": " + sums(committed, card, books.reserve),
                  "name a size with --mem; the largest that fits is " + fitting_text(room.memory_bytes));
    return fail(ErrorCode::no_capacity, asks + ": " + sums(committed, card, books.reserve),
                room.memory_bytes == 0
                    ? "nothing fits; remove or lower a share, or " + std::string(kOvercommit)
                    : "the largest that fits is " + fitting_text(room.memory_bytes) + "; or " + kOvercommit);
  }
  if (more_time && promised_of(device) > room.guarantee_ppm)
    return too_little_time(wanted, device, card, committed, room, former != books.shares.end());
  return {};
}

// What shares amount to for a quota.
struct Taken {
  std::uint64_t memory_bytes = 0, compute_ppm = 0, shares = 0;

  void count(const Share& share, const Books& books) {
    ++shares;
    for (const DeviceShare& device : share.devices) {
      const auto card = std::ranges::find(books.cards, device.uuid, &Card::uuid);
      const std::uint64_t whole = card == books.cards.end() ? 0 : card->memory_total_bytes;
      // Context room is kept from other shares just as the limit is, so count it: a thousand small shares take a card.
      const std::uint64_t takes = device.memory_limit_bytes
                                      ? saturating_add(*device.memory_limit_bytes, books.reserve.context_room_bytes)
                                      : whole;
      memory_bytes = saturating_add(memory_bytes, takes);
      compute_ppm += device.ceiling_ppm;
    }
  }
  // Adds what the programs of other, lowered shares still hold. Of the wanted share only its limits count, as they were
  // and as they will be.
  void count_held(const Share& share, const Books& books) {
    for (const DeviceShare& device : share.devices)
      memory_bytes = saturating_add(memory_bytes, excess_of(books, share.name, device.uuid));
  }
};

std::string subject_text(const Quota& quota, const Share& share) {
  if (quota.subject == Quota::Subject::group) return "the group " + std::to_string(quota.id);
  return "the user " + user_name(share.owner_uid);
}

Error over(const Quota& quota, const Share& wanted, const std::string& what, const std::string& allowed,
           const std::string& taken, const std::string& left) {
  return {ErrorCode::denied,
          "the share '" + wanted.name + "' would take " + subject_text(quota, wanted) + " over its quota of " + what +
              ": " + allowed + ", of which " + taken + (taken == "1" ? " is taken" : " are taken"),
          "at most " + left + " is left; remove or lower a share, or ask an administrator for a larger quota"};
}

Result<void> keeps(const Quota& quota, const Share& wanted, const Books& books) {
  // A share that is above a newer quota may still be changed if it takes no more than before.
  Taken before, own, had;
  own.count(wanted, books);
  const Share* former = nullptr;
  for (const Share& share : books.shares) {
    if (share.name == wanted.name) {
      former = &share;
      had.count(share, books);
      continue;
    }
    const bool same = quota.subject == Quota::Subject::group
                          ? std::ranges::find(share.owner_gids, quota.id) != share.owner_gids.end()
                          : share.owner_uid == wanted.owner_uid;
    if (same) before.count(share, books), before.count_held(share, books);
  }
  if (quota.shares && former == nullptr && before.shares + 1 > *quota.shares) {
    return std::unexpected(over(quota, wanted, "shares", std::to_string(*quota.shares), std::to_string(before.shares),
                                std::to_string(saturating_sub(*quota.shares, before.shares)) + " more"));
  }
  if (quota.memory_bytes && own.memory_bytes > had.memory_bytes &&
      saturating_add(before.memory_bytes, own.memory_bytes) > *quota.memory_bytes) {
    const std::string room = bytes_text(books.reserve.context_room_bytes);
    const std::uint64_t rooms = wanted.devices.size() * books.reserve.context_room_bytes;
    const std::uint64_t left = saturating_sub(saturating_sub(*quota.memory_bytes, before.memory_bytes), rooms);
    return std::unexpected(over(quota, wanted, "GPU memory", exact_bytes_text(*quota.memory_bytes),
                                exact_bytes_text(before.memory_bytes),
                                exact_bytes_text(left) + " besides " + room + " for contexts on each GPU"));
  }
  if (quota.compute_ppm && own.compute_ppm > had.compute_ppm &&
      saturating_add(before.compute_ppm, own.compute_ppm) > *quota.compute_ppm) {
    return std::unexpected(over(quota, wanted, "compute (ceilings, one GPU being 100 %)",
                                percent_text(*quota.compute_ppm), percent_text(before.compute_ppm),
                                percent_text(saturating_sub(*quota.compute_ppm, before.compute_ppm))));
  }
  const bool as_before = former != nullptr && former->ttl == wanted.ttl;
  if (quota.ttl && !as_before && (!wanted.ttl || *wanted.ttl > *quota.ttl)) {
    const auto text = [](std::chrono::seconds time) {
      return duration_text(static_cast<std::uint64_t>(time.count()) * 1'000'000'000u);
    };
    return fail(ErrorCode::denied,
                "the share '" + wanted.name + "' " +
                    (wanted.ttl ? "is to last " + text(*wanted.ttl) : std::string("has no end")) +
                    ", and the quota of " + subject_text(quota, wanted) + " allows " + text(*quota.ttl),
                "ask for a time to live of at most that: --ttl " + std::to_string(quota.ttl->count()) + "s");
  }
  return {};
}

// Accepts a rank above the quota if the share had as much before the quota came.
Result<void> keeps_rank(const Quota& quota, const Share& wanted, const Share* former) {
  for (const DeviceShare& device : wanted.devices) {
    const DeviceShare* const had = former == nullptr ? nullptr : device_on(*former, device.uuid);
    const auto above = [&](const std::string& asked, const std::string& most, const std::string& option) {
      return fail(ErrorCode::denied,
                  "the share '" + wanted.name + "' asks for " + asked + ", and the quota of " +
                      subject_text(quota, wanted) + " allows " + most,
                  "ask for " + option + ", or an administrator for a larger quota");
    };
    if (quota.weight && device.weight > *quota.weight && (had == nullptr || device.weight > had->weight)) {
      const std::string most = std::to_string(*quota.weight);
      return above("a weight of " + std::to_string(device.weight), most, "at most that: --weight " + most);
    }
    if (quota.highest_class && device.priority_class > *quota.highest_class &&
        (had == nullptr || device.priority_class > had->priority_class)) {
      const std::string most(class_word(*quota.highest_class));
      return above("the class " + std::string(class_word(device.priority_class)), most + " at most",
                   "that: --class " + most);
    }
  }
  return {};
}

std::uint64_t past(std::uint64_t what, std::uint64_t limit) { return what - std::min(what, limit); }

}  // namespace

Committed committed_on(const Card& card, const Books& books, std::string_view without) {
  Committed committed;
  for (const Share& share : books.shares) {
    const DeviceShare* device = share.name == without || share.overcommit ? nullptr : device_on(share, card.uuid);
    if (device == nullptr) continue;
    committed.memory_bytes = saturating_add(committed.memory_bytes, asked_of(*device, card, books.reserve));
    committed.memory_bytes = saturating_add(committed.memory_bytes, excess_of(books, share.name, card.uuid));
    committed.guarantee_ppm += promised_of(*device);
    ++committed.shares;
  }
  return committed;
}

std::uint64_t asked_of(const DeviceShare& device, const Card& card, const Reserve& reserve) {
  return device.memory_limit_bytes.value_or(committable(card, reserve));
}

std::uint32_t promised_of(const DeviceShare& device) {
  return device.priority_class == Class::latency ? device.ceiling_ppm : device.guarantee_ppm;
}

std::uint64_t kept_beside(const Committed& committed, const Reserve& reserve) {
  std::uint64_t rooms = 0;
  if (__builtin_mul_overflow(committed.shares + 1, reserve.context_room_bytes, &rooms)) rooms = ~0ull;
  return saturating_add(saturating_add(reserve.driver_bytes, rooms), committed.memory_bytes);
}

Room room_on(const Card& card, const Books& books, std::string_view without) {
  return room_beside(committed_on(card, books, without), card, books.reserve);
}

Result<void> admit(const Share& wanted, const Books& books) {
  TRY(to_grant(wanted));
  for (const DeviceShare& device : wanted.devices) {
    const auto card = std::ranges::find(books.cards, device.uuid, &Card::uuid);
    if (card == books.cards.end()) {
      return fail(ErrorCode::unreachable,
                  "the share '" + wanted.name + "' asks for " + escape_untrusted(device.uuid) +
                      ", which is not a GPU of this node, or did not answer when headgated started",
                  "'headgate gpu ls' lists the GPUs; one that is present is taken up when headgated restarts "
                  "(systemctl restart headgated), and programs go on meanwhile");
    }
    TRY(fits(wanted, device, *card, books));
  }
  const auto former = std::ranges::find(books.shares, wanted.name, &Share::name);
  for (const Quota& quota : holding(wanted, books.quotas)) {
    TRY(keeps(quota, wanted, books));
    TRY(keeps_rank(quota, wanted, former == books.shares.end() ? nullptr : &*former));
  }
  return {};
}

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
