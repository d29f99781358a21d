// Chooses the GPUs a command uses: this machine's, or a simulated node's (made on first use).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::install {

struct Gpus {
  std::vector<snapshot::Gpu> list;
  std::string driver_version;
  bool simulated = false;
};

// The NVML library to use. A simulated node's directory must exist.
struct Source {
  std::string library = "libnvidia-ml.so.1";
  std::string simulated_directory;  // empty: the real GPUs
};

// Errors: unreachable (no driver library, or no answer), with a hint that names --sim.
[[nodiscard]] Result<Gpus> read_gpus(const Source& source);

// Returns the names of the built-in profiles, which --sim=PROFILE accepts.
[[nodiscard]] std::string profile_names(std::string_view separator);

// Returns the directory of a node, made if needed. `profile`: the text after --sim=, may be empty; `usual_profile`:
// from the configuration, only used for a new node.
[[nodiscard]] Result<std::string> simulated_node(const std::string& profile, const std::string& usual_profile);

// Returns the source for a command that needs GPUs: the simulated node if requested, else the real driver.
[[nodiscard]] Result<Source> source_for(const std::optional<std::string>& simulate, const std::string& usual_profile);

// Checks that the requirements exist, except for a driver that answers. Makes nothing.
[[nodiscard]] Result<void> check_source(const std::optional<std::string>& simulate, const std::string& usual_profile);

// Lets every user of the machine use this simulated node (sim/node.hpp), for root's daemon; not if HEADGATE_SIM_DIR
// named the node.
[[nodiscard]] Result<void> let_all_use(const std::string& simulated_directory);

// Returns the directories of all nodes in this runtime directory.
[[nodiscard]] std::vector<std::string> simulated_nodes();

// Returns the node that has one of these GPUs, unless HEADGATE_SIM_DIR names another. For shares that a daemon left
// behind, which nothing else marks as simulated.
[[nodiscard]] std::optional<Source> simulated_source_with(const std::vector<std::string>& uuids);

// Reads the source's GPUs; without --sim, and if no driver answers, the default simulated node's if one exists.
[[nodiscard]] Result<Gpus> gpus_to_view(const std::optional<std::string>& simulate, const std::string& usual_profile);

}  // namespace headgate::install
