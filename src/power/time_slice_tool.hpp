// The length of a GPU's time slices: nvidia-smi alone can set it, through what no header declares.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace headgate::power {

class TimeSliceTool {
 public:
  struct Options {
    std::string program = "nvidia-smi";         // a path, or a name that is looked up in PATH
    std::vector<std::string> environment = {};  // NAME=VALUE, beside our own environment without a preload
    std::chrono::milliseconds timeout{4'000};
  };
  explicit TimeSliceTool(Options options) : options_(std::move(options)) {}

  // 0 default, 1 short, 2 medium, 3 long. `gpu`: its UUID. Blocks while the tool works. Errors: unsupported (no such
  // tool, one without compute policies, a GPU without them), denied (not root), failed (what it prints is not
  // understood).
  [[nodiscard]] Result<std::uint32_t> read(const std::string& gpu) const;
  // Does not read back. Errors: as of read().
  [[nodiscard]] Result<void> set(const std::string& gpu, std::uint32_t length) const;

 private:
  [[nodiscard]] Result<std::string> ask(const std::string& gpu, const std::string& what) const;

  Options options_;
};

// The length in what `nvidia-smi compute-policy --list` prints of one GPU; nothing where it is not there, or twice.
[[nodiscard]] std::optional<std::uint32_t> parse_time_slice(std::string_view output);

}  // namespace headgate::power
