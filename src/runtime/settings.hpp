// The runtime's settings from headgate's configuration file.
#pragma once

#include <string>

#include "oci/share_container.hpp"

namespace headgate::runtime {

enum class ImagePolicy { refuse, warn, mps };

struct Settings {
  std::string program;        // to execute; empty: runc or crun on PATH
  std::string cdi_directory;  // directory of the shares' CDI files
  oci::ShareRules rules;
  ImagePolicy image = ImagePolicy::refuse;
  std::string problem;  // error in the file, so that the keys above are unknown; empty: none
};

// `file`: empty for the default one, which may be missing.
[[nodiscard]] Settings read_settings(const std::string& file);

}  // namespace headgate::runtime
