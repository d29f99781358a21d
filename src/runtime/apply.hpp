// `headgate-oci apply`: applies Docker's device requests to a config.json, from stdin to stdout.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace headgate::runtime {

struct ApplyOutput {
  std::string config;
  std::vector<std::string> warnings;
};

inline constexpr const char* kApplyUsage =
    "headgate-oci apply --request FILE [--cdi-dir DIR]... [--no-cdi] [--hook-first] [--driver-version VERSION]";

// `words`: arguments after "apply"; `config`: stdin. Errors: usage for an invalid option, and those of
// apply_requests().
[[nodiscard]] Result<ApplyOutput> apply(std::span<const std::string> words, std::string_view config);

}  // namespace headgate::runtime
