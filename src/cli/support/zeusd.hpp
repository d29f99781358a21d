// `headgate zeusd`: starts the program that serves headgated's zeusd API.
#pragma once

#include <string>
#include <vector>

#include "cli/term/output.hpp"

namespace headgate::cli {

// Replaces this process; returns an exit status only on failure. `words`: the arguments after `zeusd`.
[[nodiscard]] int zeusd(const Voice& voice, const std::vector<std::string>& words);

}  // namespace headgate::cli
