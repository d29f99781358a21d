// Remembers which share a process was in until the driver's accounting can have reported its end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "observe/observer.hpp"

namespace headgate::daemon {

class FormerShares {
 public:
  void remember(std::uint32_t pid, observe::FormerShare share) {
    rows_.emplace_back(pid, std::move(share));
    if (rows_.size() > kMost) rows_.pop_front();
  }
  // Returns the share of the last process with this pid; without a name if unknown.
  [[nodiscard]] observe::FormerShare of(std::uint32_t pid) const {
    const auto found = std::find_if(rows_.rbegin(), rows_.rend(), [&](const auto& row) { return row.first == pid; });
    return found == rows_.rend() ? observe::FormerShare{} : found->second;
  }

 private:
  static constexpr std::size_t kMost = 4096;  // as many as a card's accounting keeps
  std::deque<std::pair<std::uint32_t, observe::FormerShare>> rows_;
};

}  // namespace headgate::daemon
