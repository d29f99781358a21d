#include "observe/event_log.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/now.hpp"
#include "base/utf8.hpp"

namespace headgate::observe {

namespace {

bool is_accusation(const std::string& kind) { return kind.starts_with("audit.") || kind == "share.damaged"; }

}  // namespace

bool EventLog::may_add(const snapshot::Event& event, std::uint64_t& left_out) {
  if (event.share.empty()) return true;
  const auto now_ns = static_cast<std::int64_t>(steady_now_ns());
  // Of shares that have not been heard of for long nothing need be known.
  if (budgets_.size() > capacity_)
    std::erase_if(budgets_, [&](const auto& entry) { return now_ns - entry.second.at_ns > 60'000'000'000; });
  Budget& budget =
      budgets_
          .try_emplace({event.share, is_accusation(event.kind)}, Budget{.left = kBurst, .at_ns = now_ns, .left_out = 0})
          .first->second;
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
  given_up_ = std::max(given_up_, own->second.front());
  of_shares_.erase(own->second.front());
  own->second.pop_front();
  if (own->second.empty()) by_share_.erase(own);
}

void EventLog::keep(const snapshot::Event& event) {
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
  if (of_shares_.empty() || too_many || (node_is_older && !reserved)) {
    given_up_ = std::max(given_up_, of_node_.begin()->first);
    of_node_.erase(of_node_.begin());
  } else {
    give_up_oldest_of(std::string(of_shares_.begin()->second.share));
  }
}

void EventLog::restore(std::vector<snapshot::Event> former, std::vector<Gap> gaps, std::uint64_t last) {
  const std::scoped_lock lock(mutex_);
  // What there was before the oldest of them is nowhere here.
  given_up_ = former.empty() ? last : former.front().sequence - 1;
  for (const auto& event : former) keep(event);
  gaps_ = std::move(gaps);
  last_ = began_after_ = last;
}

std::uint64_t EventLog::began_after() const {
  const std::scoped_lock lock(mutex_);
  return began_after_;
}

std::uint64_t EventLog::given_up() const {
  const std::scoped_lock lock(mutex_);
  return given_up_;
}

std::uint64_t EventLog::numbers_between(std::uint64_t after, std::uint64_t before) const {
  if (before <= after + 1) return 0;
  const std::scoped_lock lock(mutex_);
  std::uint64_t count = before - after - 1;
  for (const Gap& gap : gaps_) {
    const std::uint64_t from = std::max(after, gap.after), to = std::min(before - 1, gap.until);
    if (to > from) count -= to - from;
  }
  return count;
}

void EventLog::add(snapshot::Event event) {
  for (std::string* text : {&event.kind, &event.share, &event.uuid, &event.text}) *text = printable(*text);
  if (event.unix_ns == 0) event.unix_ns = unix_now_ns();
  std::optional<snapshot::Event> note;
  std::vector<std::function<void(const snapshot::Event&)>> listeners;
  {
    const std::scoped_lock lock(mutex_);
    listeners = listeners_;
    std::uint64_t left_out = 0;
    if (!may_add(event, left_out)) return;
    if (left_out > 0) {
      note = snapshot::Event{.unix_ns = event.unix_ns,
                             .kind = "events.left_out",
                             .severity = "warn",
                             .share = event.share,
                             .owner_uid = event.owner_uid,
                             .text = std::to_string(left_out) + " events of " + event.share +
                                     " were left out: it makes them faster than they can be told"};
      number(*note);
      keep(*note);
    }
    number(event);
    keep(event);
  }
  for (const auto& listener : listeners) {
    if (note) listener(*note);
    listener(event);
  }
}

void EventLog::listen(std::function<void(const snapshot::Event&)> listener) {
  const std::scoped_lock lock(mutex_);
  listeners_.push_back(std::move(listener));
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
