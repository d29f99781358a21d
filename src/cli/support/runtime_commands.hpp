// `headgate runtime configure` and `unconfigure`: headgate-oci as a runtime of a container engine.
#pragma once

#include <string>

#include "cli/term/output.hpp"

namespace headgate::cli {

struct EngineChoice {
  bool docker = false, podman = false, containerd = false, crio = false;
  std::string file;  // another than the engine's usual one
  bool yes = false;  // without asking
};

// Shows what changes and asks, keeps the former file beside it, and says what has to be restarted. For containerd and
// CRI-O it shows what to add. The exit status.
[[nodiscard]] int runtime_command(const std::string& word, const EngineChoice& choice, const Voice& voice);

}  // namespace headgate::cli
