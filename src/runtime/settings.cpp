#include "runtime/settings.hpp"

#include "config/config.hpp"
#include "runtime/node_facts.hpp"

namespace headgate::runtime {

Settings read_settings(const std::string& file) {
  const config::Reading reading = config::read(file.empty() ? config::kDefaultFile : file, !file.empty());
  const config::Config& config = reading.config;
  Settings settings;
  settings.program = config["runtime.program"].value;
  const std::string& directory = config["cdi.dir"].value;
  settings.cdi_directory = directory.empty() || directory == "none" ? kDynamicCdiDirectory : directory;
  settings.rules.from_environment = config["runtime.env"].value == "true";
  settings.rules.gpu_without_share = config["runtime.gpu_without_share"].value;
  settings.rules.next_is_nvidias = settings.program.ends_with("/nvidia-container-runtime");
  const std::string& image = config["runtime.image"].value;
  settings.image = image == "warn" ? ImagePolicy::warn : image == "mps" ? ImagePolicy::mps : ImagePolicy::refuse;
  if (!reading.errors.empty()) settings.problem = reading.errors.front().message;
  return settings;
}

}  // namespace headgate::runtime
