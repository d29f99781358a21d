// Who was in which share, for as long as the driver's accounting may first tell of a process's end.
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
  // Of the last process that had this pid; without a name where none is known.
  [[nodiscard]] observe::FormerShare of(std::uint32_t pid) const {
    const auto found = std::find_if(rows_.rbegin(), rows_.rend(), [&](const auto& row) { return row.first == pid; });
    return found == rows_.rend() ? observe::FormerShare{} : found->second;
  }

 private:
  static constexpr std::size_t kMost = 4096;  // as many as a card's accounting keeps
  std::deque<std::pair<std::uint32_t, observe::FormerShare>> rows_;
};

}  // namespace headgate::daemon
