#include "observe/event_log.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace headgate::observe {
namespace {

void make_harmless(std::string& text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = '?';
  }
}

}  // namespace

bool EventLog::may_add(const std::string& share, std::uint64_t& left_out) {
  if (share.empty()) return true;
  const std::int64_t now_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  // Of shares that have not been heard of for long nothing need be known.
  if (budgets_.size() > capacity_)
    std::erase_if(budgets_, [&](const auto& entry) { return now_ns - entry.second.at_ns > 60'000'000'000; });
  Budget& budget = budgets_.try_emplace(share, Budget{.left = kBurst, .at_ns = now_ns, .left_out = 0}).first->second;
  budget.left = std::min(kBurst, budget.left + static_cast<double>(now_ns - budget.at_ns) * kPerSecond / 1e9);
  budget.at_ns = now_ns;
  if (budget.left < 1) {
    ++budget.left_out;
    return false;
  }
  budget.left -= 1;
  left_out = std::exchange(budget.left_out, 0);
  return true;
}

void EventLog::give_up_oldest_of(const std::string& share) {
  const auto own = by_share_.find(share);
  of_shares_.erase(own->second.front());
  own->second.pop_front();
  if (own->second.empty()) by_share_.erase(own);
}

void EventLog::keep(snapshot::Event& event) {
  event.sequence = ++last_;
  if (event.share.empty()) {
    of_node_.emplace_hint(of_node_.end(), event.sequence, event);
  } else {
    of_shares_.emplace_hint(of_shares_.end(), event.sequence, event);
    auto& own = by_share_[event.share];
    own.push_back(event.sequence);
    if (own.size() > std::max<std::size_t>(1, capacity_ / kPart)) give_up_oldest_of(event.share);
  }
  if (of_node_.size() + of_shares_.size() <= capacity_) return;
  const bool reserved = of_node_.size() <= capacity_ / kPart, too_many = of_node_.size() > capacity_ / 2;
  const bool node_is_older =
      of_shares_.empty() || (!of_node_.empty() && of_node_.begin()->first < of_shares_.begin()->first);
  if (of_shares_.empty() || too_many || (node_is_older && !reserved)) of_node_.erase(of_node_.begin());
  else give_up_oldest_of(std::string(of_shares_.begin()->second.share));
}

void EventLog::add(snapshot::Event event) {
  for (std::string* text : {&event.kind, &event.share, &event.uuid, &event.text}) make_harmless(*text);
  if (event.unix_ns == 0) {
    event.unix_ns = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
            .count());
  }
  std::optional<snapshot::Event> note;
  std::function<void(const snapshot::Event&)> listener;
  {
    const std::scoped_lock lock(mutex_);
    listener = listener_;
    std::uint64_t left_out = 0;
    if (!may_add(event.share, left_out)) return;
    if (left_out > 0) {
      note = snapshot::Event{.unix_ns = event.unix_ns,
                             .kind = "events.left_out",
                             .severity = "warn",
                             .share = event.share,
                             .owner_uid = event.owner_uid,
                             .text = std::to_string(left_out) + " events of " + event.share +
                                     " were left out: it makes them faster than they can be told"};
      keep(*note);
    }
    keep(event);
  }
  if (!listener) return;
  if (note) listener(*note);
  listener(event);
}

void EventLog::listen(std::function<void(const snapshot::Event&)> listener) {
  const std::scoped_lock lock(mutex_);
  listener_ = std::move(listener);
}

std::vector<snapshot::Event> EventLog::after(std::uint64_t sequence, std::size_t most) const {
  const std::scoped_lock lock(mutex_);
  auto node = of_node_.upper_bound(sequence), share = of_shares_.upper_bound(sequence);
  std::vector<snapshot::Event> events;
  while (events.size() < most && (node != of_node_.end() || share != of_shares_.end())) {
    const bool of_node = share == of_shares_.end() || (node != of_node_.end() && node->first < share->first);
    events.push_back((of_node ? node : share)->second);
    ++(of_node ? node : share);
  }
  return events;
}

std::uint64_t EventLog::last_sequence() const {
  const std::scoped_lock lock(mutex_);
  return last_;
}

}  // namespace headgate::observe
