// Decides what /readyz reports. Pure: all inputs are passed in.
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
  std::chrono::nanoseconds driver_silence{0};  // since its last answer
  bool driver_answered = true;                 // for the last snapshot
  std::size_t gpus = 0, silent_gpus = 0;       // GPUs that the driver lists, and how many of them do not answer
  std::vector<std::string> shut;               // shares that no process can enter, because their socket is gone
  bool tells_names = true;     // names these shares; else only counts them, because names are private to their owners
  std::optional<Error> store;  // why the store cannot be written
  std::optional<Error> room;   // why no further share could get its pages
  std::chrono::nanoseconds arbiter_silence{0};  // how long the arbiter has not run although it was asked to
};

// Returns success if the daemon can do all of its work; else the first reason's code, with all reasons and remedies,
// each a half sentence.
[[nodiscard]] Result<void> readiness(const Health& health);

}  // namespace headgate::api
