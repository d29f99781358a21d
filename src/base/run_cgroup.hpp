// The cgroup that `headgate run` makes for its program: headgate-run-PID, where PID is the command's.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/whole_number.hpp"

namespace headgate {

inline constexpr std::string_view kRunCgroup = "headgate-run-";

// Returns the PID in the name of such a cgroup; empty if it is another's.
[[nodiscard]] inline std::optional<std::uint32_t> run_cgroup_pid(std::string_view name) {
  if (!name.starts_with(kRunCgroup)) return std::nullopt;
  return whole_number<std::uint32_t>(name.substr(kRunCgroup.size()));
}

}  // namespace headgate
