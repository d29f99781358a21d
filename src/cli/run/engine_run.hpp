// `headgate docker run --share NAME ...` and `headgate podman run ...`: the engine's own command, with the share.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/term/output.hpp"

namespace headgate::cli {

// The engine's words: `run` with the share's CDI device in place of `--share NAME`, which stands before the image.
// `words`: what stands after the engine. Errors: usage.
struct EngineLine {
  std::string share;
  std::vector<std::string> words;
  friend bool operator==(const EngineLine&, const EngineLine&) = default;
};
[[nodiscard]] Result<EngineLine> engine_line(const std::string& engine, const std::vector<std::string>& words);

// Asks the daemon, if there is one, whether engines can be given the share, then becomes the engine. Returns only where
// it cannot: 125, as docker does for what it refuses itself.
[[nodiscard]] int run_in_engine(const std::string& engine, const std::vector<std::string>& words, const Voice& voice);

}  // namespace headgate::cli
