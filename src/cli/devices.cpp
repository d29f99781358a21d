#include "cli/devices.hpp"

#include <cstdlib>

#include "nvml/library.hpp"
#include "observe/gpus.hpp"

namespace headgate::cli {

std::string short_model(const std::string& model) {
  for (const std::string prefix : {"NVIDIA GeForce ", "NVIDIA "}) {
    if (model.starts_with(prefix)) return model.substr(prefix.size());
  }
  return model;
}

Gpu gpu_of(const snapshot::Gpu& from) {
  Gpu gpu;
  gpu.index = from.index;
  gpu.uuid = from.uuid;
  gpu.model = from.model;
  gpu.pci_bus_id = from.pci_bus_id;
  gpu.memory_total_bytes = from.memory_total_bytes;
  gpu.memory_used_bytes = from.memory_used_bytes;
  gpu.memory_free_bytes = from.memory_free_bytes;
  gpu.memory_reserved_bytes = from.memory_reserved_bytes;
  if (from.busy_ratio) gpu.busy_percent = static_cast<std::uint32_t>(*from.busy_ratio * 100 + 0.5);
  gpu.temperature_c = from.temperature_celsius;
  gpu.power_mw = from.power_mw;
  gpu.power_limit_mw = from.power_limit_mw;
  return gpu;
}

Result<Gpus> read_gpus(const Source& source) {
  if (!source.simulated_directory.empty()) ::setenv("HEADGATE_SIM_DIR", source.simulated_directory.c_str(), 1);
  const auto nvml = TRY(nvml::Library::open(source.library));
  const observe::DriverPicture driver = TRY(observe::read_driver(nvml, 0));
  Gpus gpus;
  gpus.library = nvml.path();
  gpus.simulated = !source.simulated_directory.empty() || gpus.library.ends_with("/sim/libnvidia-ml.so.1");
  gpus.driver_version = driver.driver_version;
  for (const snapshot::Gpu& from : driver.gpus) {
    // Nothing can be planned on a card that does not say who it is.
    if (from.uuid.empty()) return fail(ErrorCode::unreachable, "GPU " + std::to_string(from.index) + " " + from.model);
    Gpu& gpu = gpus.list.emplace_back(gpu_of(from));
    for (const auto& process : driver.processes) {
      if (process.uuid == from.uuid) gpu.pids.push_back(process.pid);
    }
  }
  return gpus;
}

}  // namespace headgate::cli
