// Reports a driver that has stopped answering, and one that answers again: once each.
#pragma once

#include <chrono>
#include <optional>

#include "snapshot/snapshot.hpp"

namespace headgate::observe {

// A longer silence is more than a slow answer.
inline constexpr std::chrono::seconds kDriverSilence{10};

// Not thread-safe.
class DriverSilence {
 public:
  // `silence`: since it last answered, or was due to be loaded again after its release.
  [[nodiscard]] std::optional<snapshot::Event> look(std::chrono::nanoseconds silence);

 private:
  std::chrono::nanoseconds longest_{0};  // of the silence that was reported; 0: none was
};

}  // namespace headgate::observe
