#include "node/admission_queue.hpp"

#include <algorithm>
#include <set>

#include "base/now.hpp"
#include "base/units.hpp"
#include "base/user_name.hpp"

namespace headgate::node {
namespace {

std::int64_t steady_ns() { return static_cast<std::int64_t>(steady_now_ns()); }

}  // namespace

Queue::Books AdmissionQueue::books() const {
  const auto& node = managed_.shares.node();
  return {node.cards, node.reserve, managed_.shares.with_books(tenancy::committed_of)};
}

Result<void> AdmissionQueue::check_turn(const tenancy::Share& share, const Caller& caller) const {
  // An administrator that makes a lasting share may overtake the queue knowingly.
  if (queue_.list().empty() || (caller.administrator && !share.until_empty)) return {};
  const Queue::Waiter* const earlier = queue_.overtaken_by(share, books());
  if (earlier == nullptr) return {};
  return fail(ErrorCode::no_capacity,
              std::to_string(queue_.list().size()) + " wait for room, and the share '" + share.name +
                  "' would take what one that came before waits for",
              "stand in line with run --wait, or ask for less or for another GPU: headgate free");
}

std::size_t AdmissionQueue::waiting_of(std::uint32_t uid) const {
  return static_cast<std::size_t>(
      std::ranges::count(queue_.list(), uid, [](const Queue::Waiter& waiter) { return waiter.share.owner_uid; }));
}

Result<std::uint64_t> AdmissionQueue::enter(tenancy::Share share, const Caller& caller, Queue::Events events) {
  const std::string name = share.name;
  // The most room that there can ever be: an empty node.
  const auto& node = managed_.shares.node();
  if (auto good = tenancy::admit(share, {node.cards, {}, {}, node.reserve}); !good) {
    good.error().message += "; no waiting would help: this is all that there can be";
    return std::unexpected(good.error());
  }
  // Check the quotas apart from room: a request over its own quota does not wait for others.
  tenancy::Share needs_no_room = share;
  needs_no_room.overcommit = true;
  TRY(managed_.shares.with_books([&](const tenancy::Books& all) { return tenancy::admit(needs_no_room, all); }));
  const std::uint64_t ticket = TRY(queue_.enter(std::move(share), steady_ns(), std::move(events)));
  serve();
  if (const auto& line = queue_.list(); !line.empty() && line.back().ticket == ticket)
    managed_.tell("share.waiting", "info", name, caller.uid,
                  "a request for a share " + name + " is number " + std::to_string(line.back().place) +
                      " of those that wait: " + line.back().reason,
                  caller.uid);
  return ticket;
}

void AdmissionQueue::leave(std::uint64_t ticket) {
  if (queue_.leave(ticket)) serve();
}

void AdmissionQueue::serve() {
  if (queue_.list().empty()) return;
  queue_.serve(books(), [this](const tenancy::Share& share) { return managed_.make(share); });
}

void AdmissionQueue::show(snapshot::Snapshot& snapshot) const {
  for (auto& gpu : snapshot.gpus) gpu.waiting = 0;
  const std::int64_t now_ns = queue_.list().empty() ? 0 : steady_ns();
  for (const Queue::Waiter& waiter : queue_.list()) {
    snapshot::Waiting row{.place = static_cast<std::uint32_t>(waiter.place),
                          .share = waiter.share.name,
                          .owner_uid = waiter.share.owner_uid,
                          .owner = user_name(waiter.share.owner_uid),
                          .uuids = {},
                          .memory_limit_bytes = {},
                          .reason = waiter.reason};
    for (const auto& device : waiter.share.devices) {
      row.uuids.push_back(device.uuid);
      for (auto& gpu : snapshot.gpus) gpu.waiting += gpu.uuid == device.uuid ? 1 : 0;
    }
    // All its GPUs have the same limits.
    row.memory_limit_bytes = waiter.share.devices.at(0).memory_limit_bytes;
    row.compute_guarantee_ratio = waiter.share.devices.at(0).guarantee_ppm / 1e6;
    row.waited_ns = static_cast<std::uint64_t>(now_ns - waiter.since_ns);
    snapshot.waiting.push_back(std::move(row));
  }
}

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
