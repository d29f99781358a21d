#include "node/queue.hpp"

#include <algorithm>
#include <set>

#include "base/units.hpp"

namespace headgate::node {

std::string describe(std::span<const tenancy::Shortfall> shortfalls) {
  std::string text;
  for (const tenancy::Shortfall& lack : shortfalls) {
    text += (text.empty() ? "" : "; ") + lack.gpu + " lacks ";
    if (lack.memory_bytes > 0) text += bytes_text(lack.memory_bytes);
    if (lack.memory_bytes > 0 && lack.guarantee_ppm > 0) text += " and ";
    if (lack.guarantee_ppm > 0)
      text +=
          percent_text(static_cast<std::uint32_t>(std::min<std::uint64_t>(lack.guarantee_ppm, ~0u))) + " of its time";
  }
  return text;
}

Result<std::uint64_t> Queue::enter(tenancy::Share share, std::int64_t now_ns, Events events) {
  const auto of_user =
      std::ranges::count_if(line_, [&](const Waiter& w) { return w.share.owner_uid == share.owner_uid; });
  if (line_.size() >= kMost || static_cast<std::size_t>(of_user) >= kMaxOfAUser) {
    return fail(ErrorCode::no_capacity,
                std::to_string(line_.size()) + " requests wait for room here, " + std::to_string(of_user) +
                    " of them yours: no more than " + std::to_string(kMost) + ", and of a user " +
                    std::to_string(kMaxOfAUser) + ", may",
                "try again when some of them have ended");
  }
  if (std::ranges::any_of(
          line_, [&](const Waiter& w) { return w.share.name == share.name && w.share.owner_uid != share.owner_uid; }))
    return fail(ErrorCode::conflict, "another user's request for a share '" + share.name + "' waits already",
                "choose another name");
  Waiter waiter{.share = std::move(share)};
  waiter.ticket = ++last_ticket_;
  waiter.since_ns = now_ns;
  waiter.events = std::move(events);
  line_.push_back(std::move(waiter));
  return last_ticket_;
}

bool Queue::leave(std::uint64_t ticket) {
  return std::erase_if(line_, [&](const Waiter& waiter) { return waiter.ticket == ticket; }) > 0;
}

void Queue::serve(Books books, const Make& make) {
  std::vector<const Waiter*> before;
  std::set<std::string> made_now;
  for (auto at = line_.begin(); at != line_.end();) {
    if (made_now.contains(at->share.name)) {
      if (at->events.settled)
        at->events.settled(fail(ErrorCode::conflict,
                                "an earlier request for the share '" + at->share.name + "' has made it",
                                "run --name joins it with the same values; 'headgate share set' changes it"));
      at = line_.erase(at);
      continue;
    }
    const auto blocked = std::ranges::find_if(before, [&](const Waiter* earlier) {
      return tenancy::overtakes(at->share, earlier->share, books.cards, books.reserve, books.committed);
    });
    std::string reason = describe(tenancy::shortfall(at->share, books.cards, books.reserve, books.committed));
    if (blocked != before.end()) {
      // The name is private to its owner.
      reason = "behind number " + std::to_string(blocked - before.begin() + 1) + (reason.empty() ? "" : "; ") + reason;
    } else if (reason.empty()) {
      const auto made = make(at->share);
      // Another program holds the store's file at this moment: the request keeps its place, and the others would wait
      // as long.
      if (!made && may_pass(made.error().code)) return;
      if (made || made.error().code != ErrorCode::no_capacity) {
        if (made) {
          tenancy::commit(at->share, books.cards, books.reserve, books.committed);
          made_now.insert(at->share.name);
        }
        if (at->events.settled) at->events.settled(made);
        at = line_.erase(at);
        continue;
      }
      reason = made.error().message;
    }
    before.push_back(&*at);
    if (at->place != before.size() || at->reason != reason) {
      at->place = before.size();
      at->reason = std::move(reason);
      if (at->events.moved) at->events.moved(at->place, at->reason);
    }
    ++at;
  }
}

const Queue::Waiter* Queue::overtaken_by(const tenancy::Share& share, const Books& books) const {
  for (const Waiter& waiter : line_)
    if (tenancy::overtakes(share, waiter.share, books.cards, books.reserve, books.committed)) return &waiter;
  return nullptr;
}

}  // namespace headgate::node
