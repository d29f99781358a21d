// Checks a share's claim that it had the GPU in a turn. Limiters add marked time to the share's account in the same
// step, so marks without a matching account do not come from a limiter. If the daemon trusted them, the share could
// hold the GPU turn after turn without a charge.
#pragma once

#include <cstdint>

namespace headgate::node {

// For one share on one GPU. Not thread-safe.
class ReportCheck {
 public:
  // For a turn settled at `now_ns`: how long only this share marked that it held the GPU, and what its account says
  // now. Returns false if the account supports less than a quarter of what it marked lately.
  [[nodiscard]] bool holds(std::int64_t alone_ns, std::int64_t held_ns, std::int64_t now_ns);

 private:
  std::int64_t held_ns_ = 0, looked_ns_ = 0;  // 0: never
  std::int64_t credit_ns_ = 0;
};

}  // namespace headgate::node
