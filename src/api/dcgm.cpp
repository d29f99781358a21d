#include <optional>

#include "api/metrics.hpp"
#include "api/page.hpp"

namespace headgate::api {
namespace {

using snapshot::Gpu;

struct Field {
  const char* name;
  const char* help;
  Kind kind;
  std::optional<double> (*value)(const Gpu&);
};

template <typename T>
std::optional<double> scaled(const std::optional<T>& value, double by = 1) {
  return value ? std::optional(static_cast<double>(*value) * by) : std::nullopt;
}

// Names, units and help texts are those of dcgm-exporter's default-counters.csv.
constexpr Field kFields[] = {
    {"DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz).", Kind::gauge,
     [](const Gpu& g) { return scaled(g.sm_clock_mhz); }},
    {"DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", Kind::gauge,
     [](const Gpu& g) { return scaled(g.temperature_celsius); }},
    {"DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", Kind::gauge,
     [](const Gpu& g) { return scaled(g.power_mw, 1e-3); }},
    {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "Total energy consumption since boot (in mJ).", Kind::counter,
     [](const Gpu& g) { return scaled(g.energy_mj); }},
    {"DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", Kind::gauge,
     [](const Gpu& g) { return scaled(g.busy_ratio, 100); }},
    {"DCGM_FI_DEV_ENC_UTIL", "Encoder utilization (in %).", Kind::gauge,
     [](const Gpu& g) { return scaled(g.encoder_busy_ratio, 100); }},
    {"DCGM_FI_DEV_DEC_UTIL", "Decoder utilization (in %).", Kind::gauge,
     [](const Gpu& g) { return scaled(g.decoder_busy_ratio, 100); }},
    {"DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", Kind::gauge,
     [](const Gpu& g) { return std::optional(static_cast<double>(g.memory_used_bytes >> 20)); }},
};

}  // namespace

std::string dcgm_page(const snapshot::Snapshot& snapshot) {
  std::vector<Family> families;
  for (const Field& field : kFields) {
    Family& family = families.emplace_back(Family{field.name, field.help, field.kind, {}});
    for (const Gpu& gpu : snapshot.gpus) {
      if (snapshot.node.nvml_released || gpu.memory_total_bytes == 0) continue;
      const std::string index = std::to_string(gpu.index);
      if (const auto value = field.value(gpu))
        family.samples.push_back({{{"gpu", index},
                                   {"UUID", gpu.uuid},
                                   {"pci_bus_id", gpu.pci_bus_id},
                                   {"device", "nvidia" + index},
                                   {"modelName", gpu.model},
                                   {"hostname", snapshot.node.name}},
                                  *value});
    }
  }
  return page(families);
}

}  // namespace headgate::api
