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

void EventLog::keep(snapshot::Event& event) {
  event.sequence = ++last_;
  ring_.push_back(event);
  ++kept_[event.share];
  if (ring_.size() <= capacity_) return;
  const auto most = std::ranges::max_element(kept_, {}, [](const auto& entry) { return entry.second; });
  const auto oldest = std::ranges::find(ring_, most->first, &snapshot::Event::share);
  if (--most->second == 0) kept_.erase(most);
  ring_.erase(oldest);
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
  const auto first =
      std::ranges::partition_point(ring_, [&](const snapshot::Event& event) { return event.sequence <= sequence; });
  const auto count = std::min<std::size_t>(most, static_cast<std::size_t>(ring_.end() - first));
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

std::uint64_t EventLog::last_sequence() const {
  const std::scoped_lock lock(mutex_);
  return last_;
}

}  // namespace headgate::observe
