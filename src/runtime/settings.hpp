// What headgate's configuration file says to the runtime.
#pragma once

#include <string>

#include "oci/share_container.hpp"

namespace headgate::runtime {

enum class ImagePolicy { refuse, warn, mps };

struct Settings {
  std::string program;        // to execute; empty: runc or crun on PATH
  std::string cdi_directory;  // of the shares' files
  oci::ShareRules rules;
  ImagePolicy image = ImagePolicy::refuse;
  std::string problem;  // of the file; empty: none. What it says of the keys above then is not known.
};

// `file`: empty for the usual one, which need not be there.
[[nodiscard]] Settings read_settings(const std::string& file);

}  // namespace headgate::runtime
