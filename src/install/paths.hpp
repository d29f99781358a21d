// Paths of this installation and of this user's state. Works without /proc and without HOME.
#pragma once

#include <string>

#include "base/result.hpp"

namespace headgate::install {

// Returns the path of this executable: /proc/self/exe, else the path passed to exec (AT_EXECFN).
[[nodiscard]] std::string own_executable();
// Returns libheadgate.so near this command: in ../lib (build tree) or ../lib/headgate (installed).
[[nodiscard]] Result<std::string> limiter_library();
// Returns libheadgate-path.so, from the same places.
[[nodiscard]] Result<std::string> path_library();
// Returns the directory with the simulator's libcuda.so.1 and libnvidia-ml.so.1.
[[nodiscard]] Result<std::string> simulator_libraries();
// Returns a program that is installed with the libraries (headgate-load).
[[nodiscard]] Result<std::string> private_program(const std::string& name);
// Returns headgated: beside the command in a build, in sbin if installed.
[[nodiscard]] Result<std::string> daemon_program();
// Returns headgate-oci, beside this program. Errors: failed.
[[nodiscard]] Result<std::string> runtime_program();

// Returns HEADGATE_RUNTIME_DIR, $XDG_RUNTIME_DIR/headgate or /tmp/headgate-UID.
[[nodiscard]] Result<std::string> runtime_dir();
// Returns the directory for --sim or --sim=PROFILE: HEADGATE_SIM_DIR if set and no profile was given, else
// RUNTIME/sim/default or RUNTIME/sim/PROFILE; for a profile file, PROFILE is the file's name.
[[nodiscard]] Result<std::string> sim_directory(const std::string& profile);
// Creates a directory and its parents with mode 0700.
[[nodiscard]] Result<void> make_private_directory(const std::string& path);

// Returns an environment variable's value; empty if unset.
[[nodiscard]] std::string environment(const char* name);

}  // namespace headgate::install
