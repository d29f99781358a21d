#include <functional>

#include "api/metric_rows.hpp"
#include "api/page.hpp"

namespace headgate::api {
namespace {

using snapshot::Gpu;

struct Field {
  const char* name;
  const char* help;
  std::function<Value(const Gpu&)> value;
  Kind kind = Kind::gauge;
};

// Returns a member of a GPU, times `by`.
template <typename Member>
std::function<Value(const Gpu&)> scaled(Member member, double by = 1) {
  return [member, by](const Gpu& gpu) { return number(gpu.*member, by); };
}

// Names, units and help texts are those of dcgm-exporter's default-counters.csv.
const std::vector<Field>& dcgm_fields() {
  static const std::vector<Field> all = {
      {"DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz).", scaled(&Gpu::sm_clock_mhz)},
      {"DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", scaled(&Gpu::temperature_celsius)},
      {"DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", scaled(&Gpu::power_mw, kMilli)},
      {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "Total energy consumption since boot (in mJ).", scaled(&Gpu::energy_mj),
       Kind::counter},
      {"DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", scaled(&Gpu::busy_ratio, 100)},
      {"DCGM_FI_DEV_ENC_UTIL", "Encoder utilization (in %).", scaled(&Gpu::encoder_busy_ratio, 100)},
      {"DCGM_FI_DEV_DEC_UTIL", "Decoder utilization (in %).", scaled(&Gpu::decoder_busy_ratio, 100)},
      {"DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).",
       [](const Gpu& gpu) { return number(gpu.memory_used_bytes >> 20); }},
  };
  return all;
}

}  // namespace

std::string dcgm_page(const snapshot::Snapshot& snapshot) {
  std::vector<Family> families;
  for (const Field& field : dcgm_fields()) {
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
