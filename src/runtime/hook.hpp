// headgate-oci as a createRuntime (or prestart) hook: mounts a container's share and the limiter. It runs after the
// configuration is fixed, so it cannot add device nodes or variables.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace headgate::runtime {

// Docker looks for NVIDIA's hook on its PATH by this name; installed under it, ours executes NVIDIA's first.
inline constexpr std::string_view kNvidiasHook = "nvidia-container-runtime-hook";

struct HookCall {
  bool as_nvidias = false;                                       // called by NVIDIA's name
  std::vector<std::string> words;                                // of the command line
  std::string configuration;                                     // empty: the usual file
  std::chrono::milliseconds patience = std::chrono::minutes(1);  // then NVIDIA's hook is killed
};

// A container's state, which its runtime passes to hooks on stdin (OCI runtime specification, runtime.md, State).
struct ContainerState {
  std::string id, bundle;
  pid_t pid = 0;  // in the hook's pid namespace
};

// Errors: usage, with a message.
[[nodiscard]] Result<ContainerState> read_state(std::string_view json);

// Mounts the share into the container. `state`: the container's state, from stdin. If called by the name of NVIDIA's
// hook, first executes NVIDIA's hook (the next of that name on PATH) with the same arguments and state, unless `--gpus`
// names a share. Errors: one sentence; the container must then not start.
[[nodiscard]] Result<void> run_hook(std::string_view state, const HookCall& call);

// Runs the hook with the state from stdin. Returns the exit status.
[[nodiscard]] int hook_main(const HookCall& call);

}  // namespace headgate::runtime
