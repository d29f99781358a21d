// `headgate zeusd`: starts the program that serves the API of zeusd, which is headgated's.
#pragma once

#include <string>
#include <vector>

#include "cli/term/output.hpp"

namespace headgate::cli {

// Replaces this process; returns an exit status only where it cannot. `words`: what follows `zeusd`.
[[nodiscard]] int zeusd(const Voice& voice, const std::vector<std::string>& words);

}  // namespace headgate::cli
