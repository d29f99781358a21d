// The commands that wait in a share: a `headgate run` stays for as long as its program, which may have no process in the share
// yet, or none at the moment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace headgate::tenancy {

inline constexpr std::size_t kMostRuns = 1024;  // of a share: each is looked for whenever one comes

struct Run {
  std::uint32_t pid = 0;         // in our pid namespace
  std::uint32_t start_time = 0;  // as of identity::Process; 0: not known, then the number alone counts

  friend bool operator==(const Run&, const Run&) = default;
};

// The process of that number, as it is now. `proc`: where /proc lies.
[[nodiscard]] Run run_of(std::uint32_t pid, const std::string& proc);
// Whether it is still that process. True also where that cannot be told: a share stays rather than goes under somebody.
[[nodiscard]] bool is_alive(const Run& run, const std::string& proc);

}  // namespace headgate::tenancy
