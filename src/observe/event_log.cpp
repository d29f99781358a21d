#include "observe/event_log.hpp"

#include <algorithm>

#include "base/now.hpp"
#include "base/utf8.hpp"

namespace headgate::observe {
namespace {

snapshot::Event missed(std::uint64_t count, const snapshot::Event& before) {
  const std::uint64_t last = before.sequence - 1;
  return {.sequence = last,
          .unix_ns = before.unix_ns,
          .kind = EventCursor::kMissed,
          .severity = "warn",
          .text = std::to_string(count) + (count == 1 ? " event" : " events") + " up to number " +
                  std::to_string(last) + (count == 1 ? " was" : " were") + " dropped before this reader received " +
                  (count == 1 ? "it" : "them")};
}

}  // namespace

using snapshot::EventGroup;
using snapshot::group_of;

// Returns whether the budget of a share, or of an owner (that of `shares` shares), has room for one more event. Does
// not take it.
bool EventLog::has_budget(const std::string& whose, bool finding, double shares) {
  const auto now_ns = static_cast<std::int64_t>(steady_now_ns());
  const double burst = kBurst * shares;
  Budget& budget =
      budgets_.try_emplace({whose, finding}, Budget{.left = burst, .at_ns = now_ns, .left_out = 0}).first->second;
  const double earned = static_cast<double>(now_ns - budget.at_ns) * kPerSecond * shares / 1e9;
  budget.left = std::min(burst, budget.left + earned);
  budget.at_ns = now_ns;
  if (budget.left >= 1) return true;
  ++budget.left_out;
  return false;
}

bool EventLog::may_add(const snapshot::Event& event, std::uint64_t& left_out) {
  if (event.share.empty()) return true;
  // Budgets of shares without events for long are not needed.
  if (budgets_.size() > std::max(capacity_, forget_budgets_at_)) {
    const auto now_ns = static_cast<std::int64_t>(steady_now_ns());
    std::erase_if(budgets_, [&](const auto& entry) { return now_ns - entry.second.at_ns > 60'000'000'000; });
    forget_budgets_at_ = 2 * budgets_.size();
  }
  const bool finding = snapshot::is_finding(event.kind);
  const std::string owner = group_of(event).owner + "'s shares";  // a share's name has no blank
  // The owner's first: an event beyond it leaves no budget for the share's name.
  const bool known = event.owner_uid.has_value();
  if (known && !has_budget(owner, finding, kOwnerShares)) return false;
  if (!has_budget(event.share, finding, 1)) return false;
  for (const std::string& whose : {event.share, owner}) {
    if (whose == owner && !known) continue;
    Budget& budget = budgets_.at({whose, finding});
    budget.left -= 1;
    left_out += std::exchange(budget.left_out, 0);
  }
  return true;
}

void EventLog::give_up(std::uint64_t sequence) {
  const auto found = kept_.find(sequence);
  const EventGroup group = group_of(found->second);
  const auto take_from = [sequence](auto& lists, const auto& key) {
    const auto list = lists.find(key);
    if (list == lists.end()) return;
    list->second.erase(sequence);
    if (list->second.empty()) lists.erase(list);
  };
  take_from(groups_, group);
  if (group.finding) --findings_;
  else take_from(by_share_, found->second.share);
  given_up_ = std::max(given_up_, sequence);
  kept_.erase(found);
}

void EventLog::make_room() {
  if (kept_.size() <= capacity_) return;
  const std::size_t reserved = capacity_ / kPart;
  const bool spare_findings = findings_ <= reserved;
  const Sequences* most = nullptr;
  for (const auto& [group, sequences] : groups_) {
    const bool of_node = !group.finding && group.owner.empty();
    if (of_node ? sequences.size() <= reserved : group.finding && spare_findings) continue;
    // Of two that have as many, the one with the older event: long-gone names hold nothing.
    if (most == nullptr || sequences.size() > most->size() ||
        (sequences.size() == most->size() && *sequences.begin() < *most->begin()))
      most = &sequences;
  }
  give_up(most == nullptr ? kept_.begin()->first : *most->begin());
}

void EventLog::keep(const snapshot::Event& event) {
  const EventGroup group = group_of(event);
  kept_.emplace_hint(kept_.end(), event.sequence, event);
  groups_[group].insert(event.sequence);
  if (group.finding) {
    ++findings_;
  } else if (!event.share.empty()) {
    auto& own = by_share_[event.share];
    own.insert(event.sequence);
    if (own.size() > std::max<std::size_t>(1, capacity_ / kPart)) give_up(*own.begin());
  }
  make_room();
}

void EventLog::restore(std::vector<snapshot::Event> former, std::vector<Gap> gaps, std::uint64_t last) {
  const std::scoped_lock lock(mutex_);
  // Nothing here knows what there was before the oldest of them.
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
                                     " were left out: it causes them faster than they can be reported"};
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
  std::vector<snapshot::Event> events;
  for (auto next = kept_.upper_bound(sequence); next != kept_.end() && events.size() < most; ++next)
    events.push_back(next->second);
  return events;
}

std::size_t EventLog::kept() const {
  const std::scoped_lock lock(mutex_);
  return kept_.size();
}

std::uint64_t EventLog::last_sequence() const {
  const std::scoped_lock lock(mutex_);
  return last_;
}

EventCursor::EventCursor(const EventLog& log, std::optional<std::uint64_t> after) {
  const std::uint64_t newest = log.last_sequence();
  last_ = after ? (*after > newest ? 0 : *after) : newest;
  since_ = after == 0 ? newest : after && *after > newest ? log.began_after() : last_;
}

std::vector<snapshot::Event> EventCursor::next(const EventLog& log, std::size_t most) {
  return pass(log, log.after(last_, most));
}

std::vector<snapshot::Event> EventCursor::pass(const EventLog& log, std::vector<snapshot::Event> some) {
  std::vector<snapshot::Event> told;
  for (auto& event : some) {
    const std::uint64_t known = std::max(last_, since_);
    if (const std::uint64_t gone = log.numbers_between(known, event.sequence); gone > 0)
      told.push_back(missed(gone, event));
    last_ = event.sequence;
    told.push_back(std::move(event));
  }
  return told;
}

}  // namespace headgate::observe
