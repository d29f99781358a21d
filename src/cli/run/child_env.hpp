// Builds the environment that brings a program into a share.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "config/config.hpp"

namespace headgate::cli {

// What a program needs to find its share and its driver.
struct Entry {
  std::string base, share;  // the runtime directory, the share's name
  std::vector<std::string> uuids;
  std::string simulated_directory;  // empty: the real GPUs
  // Variables from the daemon; they override our environment.
  std::vector<std::pair<std::string, std::string>> variables = {};
  unsigned thread_percentage = 100;  // for an MPS client: the share's percentage of a GPU's SMs, 1..100
};

// Returns our environment without variables that set limits or choose GPUs, plus those that lead into the share. Errors
// if the limiter is not installed, or the loader cannot load it from where it is.
[[nodiscard]] Result<std::vector<std::string>> child_environment(const Entry& entry, const config::Config& config);

}  // namespace headgate::cli
