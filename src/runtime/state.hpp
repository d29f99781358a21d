// A container's state, which its runtime passes to hooks on stdin (OCI runtime specification, runtime.md, State).
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace headgate::runtime {

struct ContainerState {
  std::string id, bundle;
  pid_t pid = 0;  // in the hook's pid namespace
};

// Errors: usage, with a message.
[[nodiscard]] Result<ContainerState> read_state(std::string_view json);

}  // namespace headgate::runtime
