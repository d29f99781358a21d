// `headgate docker run --share NAME ...` and `headgate podman run --gpus COUNT ...`: the engine's own command, with the
// share, or with GPUs that are free. If it cannot be executed, the exit status is 125, as docker's own.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

// The engine's words: `run` with the share's CDI device in place of `--share NAME`, or without `--gpus COUNT`, both of
// which stand before the image. `words`: what stands after the engine. Errors: usage.
struct EngineLine {
  std::string share;           // empty: `gpus` of them are asked for
  unsigned gpus = 0;           // a count; all that `--gpus` takes else is the engine's
  std::size_t gpus_place = 0;  // in `words`, where the GPUs belong
  std::vector<std::string> words;
  friend bool operator==(const EngineLine&, const EngineLine&) = default;
};
[[nodiscard]] Result<EngineLine> engine_line(const std::string& engine, const std::vector<std::string>& words);

// Returns the options that give the engine whole GPUs: podman's CDI devices, or Docker's own, which all versions have.
[[nodiscard]] std::vector<std::string> gpu_words(const std::string& engine, const std::vector<std::string>& uuids);

// The UUIDs of `count` free GPUs, in nvidia-smi's order. A GPU that is cut by MIG is none. Errors: no_capacity, with
// what each of the others is used by.
[[nodiscard]] Result<std::vector<std::string>> free_gpus(const snapshot::Snapshot& snapshot, unsigned count);

// Returns why this user's engines do not find the share's CDI file; empty if they do. Reads the file.
[[nodiscard]] std::string cdi_trouble(const snapshot::Share& share);

// Returns how to start a container in the share: lines for podman, Docker and Compose, or one that says why engines
// cannot use it; empty if no daemon keeps the share.
[[nodiscard]] std::string container_lines(const snapshot::Share& share);

}  // namespace headgate::cli
