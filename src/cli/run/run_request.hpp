// Combines options, environment and configuration into a run's request, and turns it into a grant on chosen GPUs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/command.hpp"
#include "config/config.hpp"
#include "guest/grant/environment.hpp"
#include "guest/grant/size.hpp"
#include "guest/ledger/pages.hpp"
#include "install/source.hpp"
#include "snapshot/share_request.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

// The options of `headgate run`, as written: of its share, and its own.
struct RunOptions : snapshot::ShareRequest {
  std::optional<std::string> share;  // one that headgated has; the run joins it unchanged
  std::optional<std::string> wait;   // needs the daemon; the time limit, "" for none
  bool allow_unenforced = false;
};

void add_run_options(Options& options, RunOptions& run);

struct RunRequest {
  std::optional<grant::Memory> memory;  // from an option or the configuration; the environment has values per device
  std::optional<grant::Memory> host_memory;
  std::optional<std::uint32_t> compute_ppm, burst_ppm;
  std::optional<double> compute_tflops;  // instead of compute_ppm; the fraction depends on the GPU
  GpuThroughput cards;                   // TFLOPS from the configuration
  std::optional<std::string> gpu;        // a selector
  std::optional<std::string> name;
  std::string memory_text, compute_text;                       // as written, for messages
  bool memory_is_default = false, compute_is_default = false;  // from the configuration: weaker than the environment
  bool fail_closed = false;
};

// Errors: usage, quoting what was written and naming what is accepted.
[[nodiscard]] Result<grant::Memory> memory_option(const std::string& option, const std::string& text);
[[nodiscard]] Result<std::uint32_t> compute_option(const std::string& option, const std::string& text);
[[nodiscard]] Result<RunRequest> read_run_request(const RunOptions& run, const config::Config& config);

// Returns a name such as "run-4f02c81d" for a share that was not named.
[[nodiscard]] std::string random_name();

// Returns indices into gpus.list. Errors: usage if the selector matches none.
[[nodiscard]] Result<std::vector<std::size_t>> choose_gpus(const std::string& option, const std::string& selector,
                                                           const install::Gpus& gpus);
// The same of a snapshot's GPUs, as UUIDs.
[[nodiscard]] Result<std::vector<std::string>> choose_uuids(const std::string& option, const std::string& selector,
                                                            const snapshot::Snapshot& snapshot);
[[nodiscard]] install::Gpus gpus_in(const snapshot::Snapshot& snapshot);

// Returns the grant for those GPUs. `held`: the values of an existing share of that name, used where nothing was given.
// Errors: no_capacity if a memory limit exceeds a GPU's memory; usage if the environment cannot be parsed.
[[nodiscard]] Result<ledger::ShareGrant> make_grant(const RunRequest& request, const install::Gpus& gpus,
                                                    const std::vector<std::size_t>& chosen,
                                                    const char* const* environment,
                                                    const std::optional<ledger::ShareGrant>& held);

// Compares the run's options and environment with the share; values left out match. `snapshot`: the one that holds the
// share. Errors: usage, for the first value that differs, with both values, and for values that cannot be parsed.
[[nodiscard]] Result<void> agrees(const RunOptions& run, const config::Config& config, const snapshot::Share& share,
                                  const snapshot::Snapshot& snapshot);

}  // namespace headgate::cli
