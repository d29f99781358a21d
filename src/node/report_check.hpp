// How far a share's word is believed that it had the GPU in a turn. What limiters mark as held they add to the share's
// account in the same step: marks that the account does not bear out are no limiter's, and whoever believed them would
// let the share keep the others out, turn after turn, and charge it nothing.
#pragma once

#include <cstdint>

namespace headgate::node {

// Of one share on one GPU. Not thread-safe.
class ReportCheck {
 public:
  // Of a turn that is settled at `now_ns`: for how long it marked to have held the GPU, and nobody else did; and what
  // its account says now. False: that bears out not even a quarter of what it marked lately.
  [[nodiscard]] bool holds(std::int64_t alone_ns, std::int64_t held_ns, std::int64_t now_ns);

 private:
  std::int64_t held_ns_ = 0, looked_ns_ = 0;  // 0: never
  std::int64_t credit_ns_ = 0;
};

}  // namespace headgate::node
