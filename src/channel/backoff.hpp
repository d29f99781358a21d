// Delays between retries: doubling, with jitter, reset after a success.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>

namespace headgate::channel {

class Backoff {
 public:
  struct Range {
    std::chrono::milliseconds first{100};
    std::chrono::milliseconds most{10'000};
  };

  // `seed`: different for each agent, so that agents do not reconnect to a restarted server in step.
  Backoff(Range range, std::uint64_t seed) : range_(range), ceiling_(range.first), random_(seed) {}

  // Returns a delay between half the ceiling and the ceiling; then doubles the ceiling, up to `most`.
  [[nodiscard]] std::chrono::milliseconds next() {
    const auto ceiling = ceiling_;
    ceiling_ = std::min(ceiling_ * 2, range_.most);
    return ceiling / 2 + std::chrono::milliseconds(random_() % static_cast<std::uint64_t>(ceiling.count() / 2 + 1));
  }
  void succeeded() { ceiling_ = range_.first; }

 private:
  const Range range_;
  std::chrono::milliseconds ceiling_;
  std::mt19937_64 random_;
};

}  // namespace headgate::channel
