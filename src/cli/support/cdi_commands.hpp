// `headgate cdi list|validate`: what engines make of the machine's CDI files, of which they themselves say no more than
// "unresolvable".
#pragma once

#include <string>
#include <vector>

#include "cli/term/output.hpp"

namespace headgate::cli {

// `paths`: files, and directories with files, of which a later one goes before an earlier; empty: where engines look.
// Answers the exit status: of validate 1 where an engine would not take all devices of all files.
int cdi_command(const std::string& word, const std::vector<std::string>& paths, const Voice& voice);

}  // namespace headgate::cli
