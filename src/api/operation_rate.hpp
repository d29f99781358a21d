// How fast one user may change things: each operation takes the loop's time, a write to the disk and an event, which
// all users share.
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

  // Counts one operation of a user. Errors: busy, if the user has had its share for now.
  [[nodiscard]] Result<void> take(std::uint32_t uid, std::uint64_t now_ns);

 private:
  struct Budget {
    double left = kBurst;
    std::uint64_t at_ns = 0;
  };

  std::mutex mutex_;
  std::map<std::uint32_t, Budget> budgets_;  // a full one is the same as none
};

}  // namespace headgate::api
