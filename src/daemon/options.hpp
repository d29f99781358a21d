// The command line of headgated.
#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"

namespace headgate::daemon {

struct Options {
  std::optional<std::string> simulate;  // --sim[=PROFILE]; "" without a profile
  std::string config_path;              // "" for the usual place
  std::string socket;                   // "" for RUNTIME/control/headgate.sock
  std::string state;                    // directory; "" for the usual place
  std::string listen;                   // ADDR:PORT; "" as the configuration says
  std::string cdi_dir;                  // of CDI files, or none; "" as the configuration says
  std::string zeusd_socket;             // of the API of zeusd; "" as the configuration says
  bool check = false;                   // check the configuration, and nothing else
  bool help = false, version = false;
};

// Errors: usage, with what was written and what is accepted.
[[nodiscard]] Result<Options> parse(int argc, char** argv);
[[nodiscard]] const char* usage_text();

}  // namespace headgate::daemon
