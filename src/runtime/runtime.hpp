// headgate-oci in place of runc or crun: edits the config.json of a container that is to be in a share, then executes
// them with the words that it was given.
#pragma once

#include <span>
#include <string>

#include "base/result.hpp"
#include "runtime/arguments.hpp"
#include "runtime/settings.hpp"

namespace headgate::runtime {

// Before `create` and `run`: the container of the bundle into its share, if it asks for one. After an error its
// config.json is as it was. Warnings are reported at once.
[[nodiscard]] Result<void> edit_bundle(const Arguments& arguments, const Settings& settings);

// Never returns where a runtime is executed; else the exit status, and the reason is reported.
[[nodiscard]] int run_runtime(std::span<const std::string> words);

}  // namespace headgate::runtime
