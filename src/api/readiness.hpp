// What /readyz looks at, and what it says of it. Pure: everything that was looked at is handed in.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace headgate::api {

inline constexpr std::chrono::seconds kArbiterSilence{5};

struct Health {
  std::chrono::nanoseconds driver_silence{0};   // since it last answered
  bool driver_answered = true;                  // at the last snapshot
  std::size_t gpus = 0, silent_gpus = 0;        // that the driver counts; of them, those that do not answer
  std::vector<std::string> shut;                // shares that nobody can enter, their socket being gone
  bool tells_names = true;                      // of these; else their number: whose they are is not everybody's affair
  std::optional<Error> store;                   // why nothing could be written there
  std::optional<Error> room;                    // why no share more could have its pages
  std::chrono::nanoseconds arbiter_silence{0};  // for how long the arbiter has not looked though it was asked to
};

// Nothing where the daemon can do all that it is for; else the first reason's code, and all reasons and repairs, each a
// half sentence.
[[nodiscard]] Result<void> readiness(const Health& health);

}  // namespace headgate::api
