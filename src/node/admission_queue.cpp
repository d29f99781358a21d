#include "node/admission_queue.hpp"

#include <algorithm>

#include "base/now.hpp"
#include "base/user_name.hpp"

namespace headgate::node {
namespace {

std::int64_t steady_ns() { return static_cast<std::int64_t>(steady_now_ns()); }

}  // namespace

Queue::Books AdmissionQueue::books() const {
  const std::vector<tenancy::Share> rows = managed_.shares.rows();
  const std::vector<tenancy::Excess> past = managed_.shares.past_limits();
  const auto& node = managed_.shares.node();
  return {node.cards, node.reserve,
          tenancy::committed_of({node.cards, rows, managed_.shares.quotas(), node.reserve, past})};
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
  const std::vector<tenancy::Share> rows = managed_.shares.rows();
  tenancy::Share needs_no_room = share;
  needs_no_room.overcommit = true;
  const std::vector<tenancy::Excess> past = managed_.shares.past_limits();
  TRY(tenancy::admit(needs_no_room, {node.cards, rows, managed_.shares.quotas(), node.reserve, past}));
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

}  // namespace headgate::node
