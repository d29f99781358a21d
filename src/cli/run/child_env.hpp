// How a program is brought into a share: its environment.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "config/config.hpp"

namespace headgate::cli {

// What a program must be told to find its share and its driver.
struct Entry {
  std::string base, share;  // the runtime directory, the share's name
  std::vector<std::string> uuids;
  std::string simulated_directory;  // empty: the machine's own GPUs
  // What the daemon adds; our own environment does not replace it.
  std::vector<std::pair<std::string, std::string>> variables = {};
  unsigned thread_percentage = 100;  // for a client of an MPS server: what of a GPU's SMs the share allows, 1..100
};

// Our own environment without what carries limits or chooses GPUs, and with what leads into the share. Errors: where
// the limiter is not installed, or lies where the loader cannot take it from.
[[nodiscard]] Result<std::vector<std::string>> child_environment(const Entry& entry, const config::Config& config);

}  // namespace headgate::cli
