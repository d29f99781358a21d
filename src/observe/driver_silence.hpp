// A driver that has stopped to answer, and one that answers again: told once each.
#pragma once

#include <chrono>
#include <optional>

#include "snapshot/snapshot.hpp"

namespace headgate::observe {

// Longer silence is no slow answer any more.
inline constexpr std::chrono::seconds kDriverSilence{10};

// Not thread-safe.
class DriverSilence {
 public:
  // `silence`: since it last answered, or was to be taken again after it was let go of.
  [[nodiscard]] std::optional<snapshot::Event> look(std::chrono::nanoseconds silence);

 private:
  std::chrono::nanoseconds longest_{0};  // of the silence that was told of; 0: of none
};

}  // namespace headgate::observe
