// Limits how fast one user may change things. Each operation costs loop time, a disk write and an event, all shared
// between users.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "base/result.hpp"

namespace headgate::api {

// Thread-safe.
class OperationRate {
 public:
  static constexpr double kBurst = 256, kPerSecond = 16;

  // Counts one operation of a user. Errors: busy if the user's budget is used up.
  [[nodiscard]] Result<void> take(std::uint32_t uid, std::uint64_t now_ns);

 private:
  struct Budget {
    double left = kBurst;
    std::uint64_t at_ns = 0;
  };

  std::mutex mutex_;
  std::map<std::uint32_t, Budget> budgets_;  // a full budget is not stored
};

}  // namespace headgate::api
