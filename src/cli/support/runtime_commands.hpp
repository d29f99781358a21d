// `headgate runtime configure` and `unconfigure`: registers headgate-oci as a runtime of a container engine.
#pragma once

#include <string>

#include "cli/term/output.hpp"

namespace headgate::cli {

struct EngineChoice {
  bool docker = false, podman = false, containerd = false, crio = false;
  std::string file;  // instead of the engine's default
  bool yes = false;  // do not ask
};

// Shows the change and asks, keeps a backup of the file, and says what to restart. For containerd and CRI-O, only shows
// what to add. Returns the exit status.
[[nodiscard]] int runtime_command(const std::string& word, const EngineChoice& choice, const Voice& voice);

}  // namespace headgate::cli
