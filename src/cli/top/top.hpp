// `headgate top`: the live view.
#pragma once

#include <string>

#include "cli/command.hpp"

namespace headgate::cli {

struct TopOptions {
  bool once = false, readonly = false;
  std::string by = "share";  // share, gpu, user, process
};

void add_top_options(Options& options, TopOptions& own);

}  // namespace headgate::cli
