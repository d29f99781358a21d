// What several users want: each user's in the order in which it came, and the users in turn. Whoever asks for much has
// everybody else wait for one of his, and no more.
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
  // Of its user so many wait, with this one.
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
  // Takes out those of a user that `is_idle` finds.
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
  std::map<std::uint32_t, std::deque<T>> waiting_;  // of nobody an empty one
  std::uint32_t last_ = 0;                          // whose turn it was
};

}  // namespace headgate
