// Which GPUs a word of the command looks at: this machine's, or a simulated node's (made on first use).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "install/devices.hpp"

namespace headgate::install {

// The profiles a --sim=PROFILE may name, for messages.
[[nodiscard]] std::string accepted_profiles();

// The node's directory with a node in it. `profile`: what stood behind --sim=, may be empty; `usual_profile`: of the
// configuration, used only where a new node is made.
[[nodiscard]] Result<std::string> simulated_node(const std::string& profile, const std::string& usual_profile);

// For a word that needs GPUs: the simulated node if asked for, else the machine's driver.
[[nodiscard]] Result<Source> source_for(const std::optional<std::string>& simulate, const std::string& usual_profile);

// Whether there is what that needs, but for a driver that answers: makes nothing.
[[nodiscard]] Result<void> check_source(const std::optional<std::string>& simulate, const std::string& usual_profile);

// Of root's daemon for everybody: lets every user of the machine use that simulated node (sim/node.hpp), unless
// HEADGATE_SIM_DIR named it.
[[nodiscard]] Result<void> let_all_use(const std::string& simulated_directory);

// Directories of the nodes in this runtime directory.
[[nodiscard]] std::vector<std::string> simulated_nodes();

// Of these nodes the one that has one of these GPUs, unless HEADGATE_SIM_DIR names another. For shares that a daemon
// left behind, of which nobody else says that they are simulated.
[[nodiscard]] std::optional<Source> simulated_source_with(const std::vector<std::string>& uuids);

// As above, and asks it; without --sim, where no driver answers, the default simulated node if one exists.
[[nodiscard]] Result<Gpus> gpus_to_view(const std::optional<std::string>& simulate, const std::string& usual_profile);

}  // namespace headgate::install
