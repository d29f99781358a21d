// headgate-oci as a replacement for runc or crun: edits the config.json of a container that belongs in a share, then
// executes the real runtime with the same arguments.
#pragma once

#include <span>
#include <string>

#include "base/result.hpp"
#include "runtime/arguments.hpp"
#include "runtime/settings.hpp"

namespace headgate::runtime {

// Called before `create` and `run`: puts the bundle's container into its share, if it asks for one. After an error,
// config.json is unchanged. Reports warnings at once.
[[nodiscard]] Result<void> edit_bundle(const Arguments& arguments, const Settings& settings);

// Does not return if a runtime is executed; otherwise reports the reason and returns the exit status.
[[nodiscard]] int run_runtime(std::span<const std::string> words);

}  // namespace headgate::runtime
