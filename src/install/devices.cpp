#include "install/devices.hpp"

#include <cstdlib>

#include "nvml/library.hpp"
#include "observe/gpus.hpp"

namespace headgate::install {

Result<Gpus> read_gpus(const Source& source) {
  if (!source.simulated_directory.empty()) ::setenv("HEADGATE_SIM_DIR", source.simulated_directory.c_str(), 1);
  const auto nvml = TRY(nvml::Library::open(source.library));
  observe::DriverSnapshot driver = TRY(observe::read_driver(nvml, 0));
  for (const snapshot::Gpu& gpu : driver.gpus) {
    // Without its UUID, a GPU cannot be assigned to a share.
    if (gpu.uuid.empty()) return fail(ErrorCode::unreachable, "GPU " + std::to_string(gpu.index) + " " + gpu.model);
  }
  const bool simulated = !source.simulated_directory.empty() || nvml.path().ends_with("/sim/libnvidia-ml.so.1");
  return Gpus{std::move(driver.gpus), driver.driver_version, simulated};
}

}  // namespace headgate::install
