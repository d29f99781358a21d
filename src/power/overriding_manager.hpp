// A GPU manager that runs commands instead of some setters (zeusd's command overrides) and forwards all else to another
// manager.
#pragma once

#include <memory>

#include "config/command_overrides.hpp"
#include "power/command.hpp"
#include "power/gpu_manager.hpp"

namespace headgate::power {

// Runs `words` without a shell, in a process group that is killed at the timeout, and reads their output. Background
// processes do not delay it. Errors: failed, with the output: cannot start, status not 0, output matches the pattern,
// or timeout.
[[nodiscard]] Result<void> run_command(const std::vector<std::string>& words,
                                       const std::optional<std::string>& error_pattern,
                                       std::chrono::milliseconds timeout);

// Returns the words with placeholders filled in.
[[nodiscard]] std::vector<std::string> filled(const std::vector<std::string>& words, std::uint32_t gpu,
                                              const Command& command);

// `gpu`: the index, for {gpu_id}.
[[nodiscard]] std::unique_ptr<GpuManager> overriding_manager(std::unique_ptr<GpuManager> manager, std::uint32_t gpu,
                                                             const config::CommandOverrides& overrides);

}  // namespace headgate::power
