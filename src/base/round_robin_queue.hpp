// Per-user FIFOs served round robin: however much one user queues, any other waits for at most one of their items.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

namespace headgate {

template <typename T>
class RoundRobinQueue {
 public:
  // Returns the user's queue length, including this item.
  std::size_t add(std::uint32_t user, T what) {
    std::deque<T>& own = waiting_[user];
    own.push_back(std::move(what));
    return own.size();
  }
  std::optional<T> next() {
    if (waiting_.empty()) return std::nullopt;
    auto turn = waiting_.upper_bound(last_);
    if (turn == waiting_.end()) turn = waiting_.begin();
    last_ = turn->first;
    std::optional<T> what(std::move(turn->second.front()));
    turn->second.pop_front();
    if (turn->second.empty()) waiting_.erase(turn);
    return what;
  }
  // Removes the user's items for which `is_idle` returns true.
  template <typename Test>
  void drop(std::uint32_t user, Test is_idle) {
    const auto found = waiting_.find(user);
    if (found == waiting_.end()) return;
    std::erase_if(found->second, is_idle);
    if (found->second.empty()) waiting_.erase(found);
  }
  void clear() { waiting_.clear(); }
  [[nodiscard]] bool empty() const { return waiting_.empty(); }

 private:
  std::map<std::uint32_t, std::deque<T>> waiting_;  // no empty queues
  std::uint32_t last_ = 0;                          // the user served last
};

}  // namespace headgate
