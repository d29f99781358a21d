// Requests for shares that wait for room: the node's side of the queue.
#include "base/now.hpp"
#include "base/units.hpp"
#include "base/user_name.hpp"
#include "node/node.hpp"

namespace headgate::node {
namespace {

std::int64_t steady_ns() { return static_cast<std::int64_t>(steady_now_ns()); }

}  // namespace

Queue::Books Node::books() const {
  const std::vector<tenancy::Share> rows = shares_.rows();
  const std::vector<tenancy::Excess> past = shares_.past_limits();
  const auto& node = shares_.node();
  return {node.cards, node.reserve, tenancy::committed_of({node.cards, rows, shares_.quotas(), node.reserve, past})};
}

Result<void> Node::goes_first(const tenancy::Share& share, const Caller& caller) const {
  // An administrator that makes a lasting share may overtake the queue knowingly.
  if (queue_.list().empty() || (caller.administrator && !share.until_empty)) return {};
  const Queue::Waiter* const earlier = queue_.overtaken_by(share, books());
  if (earlier == nullptr) return {};
  return fail(ErrorCode::no_capacity,
              std::to_string(queue_.list().size()) + " wait for room, and the share '" + share.name +
                  "' would take what one that came before waits for",
              "stand in line with run --wait, or ask for less or for another GPU: headgate free");
}

Result<std::uint64_t> Node::wait_for_room(const ShareRequest& order, const Caller& caller,
                                          const std::vector<snapshot::Gpu>& gpus, Queue::Events events) {
  tenancy::Share share = TRY(asked_for(order, caller, gpus));
  const std::string name = share.name;
  if (shares_.find(name) != nullptr)
    return fail(ErrorCode::conflict, "there is a share '" + name + "' already", "choose another name");
  // The most room that there can ever be: an empty node.
  const auto& node = shares_.node();
  if (auto good = tenancy::admit(share, {node.cards, {}, {}, node.reserve}); !good) {
    good.error().message += "; no waiting would help: this is all that there can be";
    return std::unexpected(good.error());
  }
  // Check the quotas apart from room: a request over its own quota does not wait for others.
  const std::vector<tenancy::Share> rows = shares_.rows();
  tenancy::Share needs_no_room = share;
  needs_no_room.overcommit = true;
  const std::vector<tenancy::Excess> past = shares_.past_limits();
  if (auto good = tenancy::admit(needs_no_room, {node.cards, rows, shares_.quotas(), node.reserve, past}); !good)
    return std::unexpected(good.error());
  const std::uint64_t ticket = TRY(queue_.enter(std::move(share), steady_ns(), std::move(events)));
  serve_queue();
  if (const auto& line = queue_.list(); !line.empty() && line.back().ticket == ticket)
    tell("share.waiting", "info", name, caller.uid,
         "a request for a share " + name + " is number " + std::to_string(line.back().place) +
             " of those that wait: " + line.back().reason,
         caller.uid);
  return ticket;
}

void Node::leave_queue(std::uint64_t ticket) {
  if (queue_.leave(ticket)) serve_queue();
}

void Node::serve_queue() {
  if (queue_.list().empty()) return;
  queue_.serve(books(), [this](const tenancy::Share& share) { return make(share); });
}

void Node::show_queue(snapshot::Snapshot& snapshot) const {
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
