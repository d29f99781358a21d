// What a run asks for, out of options, environment and configuration, and its turning into a grant on chosen GPUs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/command_line.hpp"
#include "config/config.hpp"
#include "guest/grant/environment.hpp"
#include "guest/grant/size.hpp"
#include "guest/ledger/pages.hpp"
#include "install/devices.hpp"

namespace headgate::cli {

struct RunRequest {
  std::optional<grant::Memory> memory;  // of an option, else of the configuration; the environment's are per device
  std::optional<grant::Memory> host_memory;
  std::optional<std::uint32_t> compute_ppm, burst_ppm;
  std::optional<double> compute_tflops;  // in place of compute_ppm; what part of a GPU that is, depends on the card
  GpuThroughput cards;                   // the configuration's own
  std::optional<std::string> gpu;        // a selector
  std::optional<std::string> name;
  std::string memory_text, compute_text;                       // as written, for messages
  bool memory_is_default = false, compute_is_default = false;  // from the configuration: weaker than the environment
  bool fail_closed = false;
};

// Errors: usage, with what was written and what is accepted.
[[nodiscard]] Result<grant::Memory> memory_option(const std::string& option, const std::string& text);
[[nodiscard]] Result<std::uint32_t> compute_option(const std::string& option, const std::string& text);
[[nodiscard]] Result<RunRequest> read_run_request(const RunOptions& run, const config::Config& config);

// "run-4f02c81d": of a share that nobody gave a name.
[[nodiscard]] std::string random_name();

// Indices into gpus.list. Errors: usage for a selector that names none.
[[nodiscard]] Result<std::vector<std::size_t>> choose_gpus(const std::string& option, const std::string& selector,
                                                           const install::Gpus& gpus);

// The grant for those GPUs. `held`: the values of an existing share of that name, which stand where nothing was said.
// Errors: no_capacity where a memory limit is more than a card has; usage for an unreadable environment.
[[nodiscard]] Result<ledger::ShareGrant> make_grant(const RunRequest& request, const install::Gpus& gpus,
                                                    const std::vector<std::size_t>& chosen,
                                                    const char* const* environment,
                                                    const std::optional<ledger::ShareGrant>& held);

}  // namespace headgate::cli
