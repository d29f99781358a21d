// How the views call GPUs and processes. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "snapshot/snapshot.hpp"

namespace headgate::cli {

// "NVIDIA H200" -> "H200".
[[nodiscard]] std::string short_model(const std::string& model);
// "GPU 0", or the beginning of the UUID where the node does not have it.
[[nodiscard]] std::string gpu_words(const snapshot::Snapshot& picture, const std::string& uuid);
// The process's number on the host, or in its own namespace where only that is known.
[[nodiscard]] std::uint32_t shown_pid(const snapshot::Process& process);

}  // namespace headgate::cli
