// Counts system calls from outside with ptrace: nothing is preloaded or filtered, and every call of every thread is
// counted.
#pragma once

#include <cstdint>
#include <map>

#include "base/result.hpp"
#include "load/child.hpp"

namespace headgate::bench {

struct SystemCalls {
  std::uint64_t of_launches = 0;  // by the marking thread between its marks (cost/markers.hpp)
  std::uint64_t of_waits = 0;
  std::uint64_t of_other_threads = 0;       // during the same time
  std::map<long, std::uint64_t> by_number;  // for launches and waits
};

// Runs the child of `spec` to its end under the tracer. Errors: ptrace is not permitted, or the child failed.
[[nodiscard]] Result<SystemCalls> count_system_calls(const load::ChildSpec& spec);

}  // namespace headgate::bench
