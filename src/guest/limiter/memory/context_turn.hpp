// The turn to create a context of unknown size: one at a time. Others that start together would count it as their own
// where only the card's free memory shows sizes, and would all be refused where their sum shows to be too much.
#pragma once

#include <cstdint>

#include "guest/bare/clock.hpp"

namespace headgate::limiter {

// In the user's page of the GPU, or in the share's under a daemon. A holder that died does not delay others of its pid
// namespace. One that is stopped, or that died in another pid namespace, has the turn for about kTurnNs.
class ContextTurn {
 public:
  ContextTurn() = default;
  ~ContextTurn() { leave(); }
  ContextTurn(const ContextTurn&) = delete;
  ContextTurn& operator=(const ContextTurn&) = delete;

  // Waits for the turn, about kTurnNs at most: then the caller goes on without it. Stops if is_known() returns true,
  // which is called after each look.
  template <typename IsKnown>
  void wait(std::uint32_t device_index, IsKnown is_known) {
    const std::int64_t ends_ns = bare::host_ns() + kTurnNs;
    for (int looks = 1;; ++looks) {
      const bool is_taken = take(device_index, looks % kLooksPerCheck == 0);
      if (is_known() || is_taken || bare::host_ns() >= ends_ns) return;
      rest();
    }
  }
  void leave();

  // Drivers may take seconds for the first context of a node.
  static constexpr std::int64_t kTurnNs = 10'000'000'000;

 private:
  static constexpr std::int64_t kLookEveryNs = 1'000'000;
  static constexpr int kLooksPerCheck = 25;

  // checks: looks whether the holder lives too.
  bool take(std::uint32_t device_index, bool checks);
  static void rest();

  std::uint32_t device_index_ = 0;
  std::uint64_t held_ = 0;  // the word that this object wrote; 0: none
};

void context_turn_reset_after_fork();

}  // namespace headgate::limiter
