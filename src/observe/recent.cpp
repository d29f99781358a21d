#include "observe/recent.hpp"

#include <algorithm>
#include <utility>

#include "base/saturating_math.hpp"

namespace headgate::observe {
namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000, kApartNs = 100'000'000;

}  // namespace

void RecentSnapshots::add(NodeSnapshot snapshot) {
  last_ = std::move(snapshot);
  if (!kept_.empty() && saturating_sub(last_->taken_ns, kept_.back()->taken_ns) < kApartNs) return;
  kept_.push_back(last_);
  while (kept_.size() > 1 && saturating_sub(last_->taken_ns, kept_[1]->taken_ns) >= kSecondNs) kept_.pop_front();
}

const snapshot::Snapshot* RecentSnapshots::second_ago(std::uint64_t now_ns) const {
  const auto off_ns = [now_ns](const NodeSnapshot& snapshot) {
    const std::uint64_t age_ns = saturating_sub(now_ns, snapshot->taken_ns);
    return age_ns > kSecondNs ? age_ns - kSecondNs : kSecondNs - age_ns;
  };
  return kept_.empty() ? nullptr : std::ranges::min_element(kept_, {}, off_ns)->get();
}

RecentSnapshots::Since RecentSnapshots::second_ago(const snapshot::Share& share, std::uint64_t now_ns) const {
  const snapshot::Snapshot* since = second_ago(now_ns);
  // Those before it are further from a second ago.
  for (const NodeSnapshot& snapshot : kept_) {
    if (snapshot->taken_ns < since->taken_ns) continue;
    if (const snapshot::Share* found = same_share_in(*snapshot, share))
      return {.share = found, .elapsed_ns = saturating_sub(now_ns, snapshot->taken_ns)};
  }
  return {};
}

const snapshot::Share* same_share_in(const snapshot::Snapshot& snapshot, const snapshot::Share& share) {
  const auto found = std::ranges::lower_bound(snapshot.shares, share.name, {}, &snapshot::Share::name);
  return found == snapshot.shares.end() || found->name != share.name || found->generation != share.generation ? nullptr
                                                                                                              : &*found;
}

}  // namespace headgate::observe
