// `headgate docker run --share NAME ...` and `headgate podman run --gpus COUNT ...`: the engine's own command, with the
// share, or with GPUs that are free.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/term/output.hpp"

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

// Asks the daemon, if there is one, whether engines can be given the share, or which GPUs are free, then becomes the
// engine. Returns only where
// it cannot: 125, as docker does for what it refuses itself.
[[nodiscard]] int run_in_engine(const std::string& engine, const std::vector<std::string>& words, const Voice& voice);

}  // namespace headgate::cli
