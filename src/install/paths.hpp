// Where this installation and this user's state lie. Works without /proc and without HOME.
#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"

namespace headgate::install {

// Of this command's own file: /proc/self/exe, else what the kernel was told at exec.
[[nodiscard]] std::string own_executable();
// libheadgate.so beside this command: ../lib (build tree) or ../lib/headgate (installed).
[[nodiscard]] Result<std::string> limiter_library();
// libheadgate-path.so, in the same places.
[[nodiscard]] Result<std::string> path_library();
// The directory with the simulator's libcuda.so.1 and libnvidia-ml.so.1.
[[nodiscard]] Result<std::string> simulator_libraries();
// A program that lies with the libraries (headgate-load).
[[nodiscard]] Result<std::string> private_program(const std::string& name);
// headgated: beside the command in a build, in sbin where it is installed.
[[nodiscard]] Result<std::string> daemon_program();
// headgate-oci, beside this program. Errors: failed.
[[nodiscard]] Result<std::string> runtime_program();

// HEADGATE_RUNTIME_DIR, $XDG_RUNTIME_DIR/headgate or /tmp/headgate-UID.
[[nodiscard]] Result<std::string> runtime_dir();
// Of --sim or --sim=PROFILE: HEADGATE_SIM_DIR where set and no profile was written, else RUNTIME/sim/default or
// RUNTIME/sim/PROFILE; a profile file is named after the file.
[[nodiscard]] Result<std::string> sim_directory(const std::string& profile);
// Makes a directory and its parents, 0700.
[[nodiscard]] Result<void> make_private_directory(const std::string& path);

// The value of an environment variable; empty where unset.
[[nodiscard]] std::string environment(const char* name);

}  // namespace headgate::install
