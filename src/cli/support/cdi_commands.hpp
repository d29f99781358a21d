// `headgate cdi list|validate`: how engines read this machine's CDI files; engines themselves only report
// "unresolvable".
#pragma once

#include <string>
#include <vector>

#include "cli/term/output.hpp"

namespace headgate::cli {

// `paths`: files and directories; a later directory overrides an earlier one; empty: the engines' default directories.
// Returns the exit status: 1 from validate if an engine would reject any device.
int cdi_command(const std::string& word, const std::vector<std::string>& paths, const Voice& voice);

}  // namespace headgate::cli
