// GPU rows of /metrics, and /metrics/dcgm.
#include <algorithm>
#include <functional>

#include "api/metric_rows.hpp"
#include "api/page.hpp"

namespace headgate::api {
namespace {

using snapshot::Gpu;
using snapshot::MigInstance;

// A GPU that does not answer has no UUID, so its index identifies it.
std::string uuid_of(const Gpu& gpu) { return gpu.uuid.empty() ? "index-" + std::to_string(gpu.index) : gpu.uuid; }

// Makes a row of values from the driver. There are none while its library is released, or for a GPU that does not
// answer. `of`: a member of Gpu, or a function that takes a Gpu.
template <typename Of>
MetricRow of_gpu(std::string_view name, std::string_view help, Of of, double unit = 1) {
  return {{name, kind_of(name), "uuid", help}, [of, unit](const MetricInput& in, Samples& out) {
            for (const Gpu& gpu : in.snapshot.gpus) {
              if (in.snapshot.node.nvml_released || gpu.memory_total_bytes == 0) continue;
              if (const Value found = number(std::invoke(of, gpu), unit))
                out.push_back({{{"uuid", uuid_of(gpu)}}, *found});
            }
          }};
}

// Values from the ledgers of the GPU's shares.
template <typename Of>
MetricRow of_gpu_shares(std::string_view name, std::string_view help, Of of) {
  return {{name, kGauge, "uuid", help}, [of](const MetricInput& in, Samples& out) {
            for (const Gpu& gpu : in.snapshot.gpus)
              if (!gpu.uuid.empty()) out.push_back({{{"uuid", uuid_of(gpu)}}, *number(std::invoke(of, gpu))});
          }};
}

// Formats "reason" like other labels: "power cap" becomes power_cap.
std::string as_word(std::string text) {
  std::ranges::replace(text, ' ', '_');
  return text;
}

void collect_gpu_info(const MetricInput& in, Samples& out) {
  for (const Gpu& gpu : in.snapshot.gpus)
    out.push_back({{{"uuid", uuid_of(gpu)},
                    {"gpu", std::to_string(gpu.index)},
                    {"pci_bus_id", gpu.pci_bus_id},
                    {"model", gpu.model},
                    {"driver", in.snapshot.node.driver_version},
                    {"simulated", yes_no(in.snapshot.node.simulated)}},
                   1});
}

void collect_power_limits(const MetricInput& in, Samples& out) {
  for (const Gpu& gpu : in.snapshot.gpus) {
    const auto add = [&](const char* kind, const std::optional<std::uint32_t>& limit_mw) {
      if (limit_mw) out.push_back({{{"uuid", uuid_of(gpu)}, {"kind", kind}}, *number(limit_mw, kMilli)});
    };
    add("requested", gpu.power_limit_requested_mw);
    add("enforced", gpu.power_limit_mw);
    add("min", gpu.power_limit_min_mw);
    add("max", gpu.power_limit_max_mw);
  }
}

void collect_clocks(const MetricInput& in, Samples& out) {
  for (const Gpu& gpu : in.snapshot.gpus) {
    if (in.snapshot.node.nvml_released) return;
    if (const Value sm = number(gpu.sm_clock_mhz, kMega))
      out.push_back({{{"uuid", uuid_of(gpu)}, {"domain", "sm"}}, *sm});
    if (const Value memory = number(gpu.memory_clock_mhz, kMega))
      out.push_back({{{"uuid", uuid_of(gpu)}, {"domain", "memory"}}, *memory});
  }
}

// Calls visit(gpu, slice) for each MIG slice, unless the driver's library is released.
template <typename Visit>
void each_slice(const MetricInput& in, Visit&& visit) {
  if (in.snapshot.node.nvml_released) return;
  for (const Gpu& gpu : in.snapshot.gpus)
    for (const MigInstance& slice : gpu.mig_instances) visit(gpu, slice);
}

template <typename Of>
MetricRow of_slice(std::string_view name, std::string_view help, Of of) {
  return {{name, kGauge, "uuid, instance", help}, [of](const MetricInput& in, Samples& out) {
            each_slice(in, [&](const Gpu& gpu, const MigInstance& slice) {
              if (const Value found = number(std::invoke(of, slice)))
                out.push_back({{{"uuid", uuid_of(gpu)}, {"instance", slice.uuid}}, *found});
            });
          }};
}

struct DcgmField {
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
const std::vector<DcgmField>& dcgm_fields() {
  static const std::vector<DcgmField> all = {
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

std::vector<MetricRow> gpu_rows() {
  return {
      {{"headgate_gpu_info", kGauge, "uuid, gpu, pci_bus_id, model, driver, simulated",
        "Always 1; join by uuid for the GPU's place and model."},
       collect_gpu_info},
      of_gpu("headgate_gpu_memory_total_bytes", "The card's memory, as NVML counts it.", &Gpu::memory_total_bytes),
      of_gpu("headgate_gpu_memory_used_bytes", "Memory in use, by shares and by others.", &Gpu::memory_used_bytes),
      of_gpu("headgate_gpu_memory_free_bytes", "Memory that is not in use.", &Gpu::memory_free_bytes),
      of_gpu("headgate_gpu_memory_reserved_bytes", "Memory that driver and firmware keep for themselves.",
             &Gpu::memory_reserved_bytes),
      of_gpu("headgate_gpu_memory_unattributed_bytes", "Memory in use that no share's ledger knows of.",
             &Gpu::memory_unattributed_bytes),
      of_gpu_shares("headgate_gpu_memory_committed_bytes", "Memory limits of the shares on it, together.",
                    &Gpu::memory_committed_bytes),
      of_gpu_shares("headgate_gpu_memory_sold_bytes",
                    "The former name of headgate_gpu_memory_committed_bytes; the next release drops it.",
                    &Gpu::memory_committed_bytes),
      of_gpu_shares("headgate_gpu_memory_shares_bytes", "Memory in use by shares, by their ledgers.",
                    &Gpu::memory_shares_bytes),
      of_gpu_shares("headgate_gpu_unlimited_shares", "Shares on it without a memory limit.", &Gpu::unlimited_shares),
      of_gpu_shares("headgate_gpu_waiting_requests", "Requests for shares that wait for room on it.", &Gpu::waiting),
      of_gpu_shares(
          "headgate_gpu_compute_committed_ratio",
          "Guarantees of the shares on it, and ceilings of those of class latency, together; 1 is the whole GPU.",
          &Gpu::compute_committed_ratio),
      of_gpu_shares("headgate_gpu_compute_sold_ratio",
                    "The former name of headgate_gpu_compute_committed_ratio; the next release drops it.",
                    &Gpu::compute_committed_ratio),
      of_gpu("headgate_gpu_busy_ratio", "Part of the last second or so in which some kernel ran (NVML's utilization).",
             &Gpu::busy_ratio),
      of_gpu(
          "headgate_gpu_sm_active_ratio",
          "Part of all its SMs' time in which they had work, over the last second or so; cards from Hopper on tell it.",
          &Gpu::sm_active_ratio),
      of_gpu("headgate_gpu_memory_busy_ratio", "Part of that time in which memory was read or written.",
             &Gpu::memory_busy_ratio),
      of_gpu("headgate_gpu_encoder_busy_ratio",
             "Part of the time in which video was encoded: by an engine that no share is charged for.",
             &Gpu::encoder_busy_ratio),
      of_gpu("headgate_gpu_decoder_busy_ratio", "The same of decoding.", &Gpu::decoder_busy_ratio),
      of_gpu("headgate_gpu_power_watts", "Power drawn.", &Gpu::power_mw, kMilli),
      {{"headgate_gpu_power_limit_watts", kGauge, "uuid, kind",
        "Power limit; kind is requested (asked for last), enforced (in force, which may be lower), min or max (what "
        "the card accepts)."},
       collect_power_limits},
      of_gpu("headgate_gpu_persistence_enabled",
             "0 where the driver forgets limits and clocks when its last program ends.", &Gpu::persistence),
      of_gpu("headgate_gpu_energy_joules_total", "Energy used since the driver was loaded.", &Gpu::energy_mj, kMilli),
      {{"headgate_gpu_unattributed_energy_joules_total", kCounter, "uuid",
        "Energy that no share is charged for: the GPU idled, or others worked there. With the energy of its shares it "
        "is what the "
        "GPU's own counter grew by while the daemon looked."},
       [](const MetricInput& in, Samples& out) {
         for (const auto& [uuid, joules] : in.own.sums.unattributed_energy) out.push_back({{{"uuid", uuid}}, joules});
       }},
      of_gpu(
          "headgate_gpu_half_precision_flops",
          "Dense FP16 operations in a second, by the maker's data sheet; times a share's rate of GPU seconds, what it "
          "could have computed at most.",
          &Gpu::half_precision_tflops, 1e12),
      of_gpu("headgate_gpu_temperature_celsius", "Temperature of the GPU.", &Gpu::temperature_celsius),
      {{"headgate_gpu_clock_hertz", kGauge, "uuid, domain", "Clock rate; domain is sm or memory."}, collect_clocks},
      {{"headgate_gpu_throttled_seconds_total", kCounter, "uuid, reason",
        "Time during which the driver held clocks down, by reason; sampled once a snapshot."},
       [](const MetricInput& in, Samples& out) {
         for (const auto& [key, seconds] : in.own.sums.throttled_seconds)
           out.push_back({{{"uuid", key.first}, {"reason", as_word(key.second)}}, seconds});
       }},
      {{"headgate_gpu_xid_events_total", kCounter, "uuid, xid",
        "Errors that the driver reported since the daemon started."},
       [](const MetricInput& in, Samples& out) {
         for (const Gpu& gpu : in.snapshot.gpus) {
           for (const auto& [xid, count] : gpu.xids)
             out.push_back({{{"uuid", uuid_of(gpu)}, {"xid", std::to_string(xid)}}, static_cast<double>(count)});
         }
       }},
      of_gpu("headgate_gpu_ecc_corrected_errors_total",
             "Memory errors that were corrected, since the driver was loaded.", &Gpu::ecc_corrected_errors),
      of_gpu("headgate_gpu_ecc_uncorrected_errors_total",
             "Memory errors that could not be corrected, since the driver was loaded.", &Gpu::ecc_uncorrected_errors),
      of_gpu("headgate_gpu_ecc_lifetime_corrected_errors_total",
             "Memory errors that were corrected, in the card's life.", &Gpu::ecc_lifetime_corrected_errors),
      of_gpu("headgate_gpu_ecc_lifetime_uncorrected_errors_total",
             "Memory errors that could not be corrected, in the card's life.", &Gpu::ecc_lifetime_uncorrected_errors),
      of_gpu("headgate_gpu_pcie_generation", "PCIe generation of the link as it runs now.", &Gpu::pcie_generation),
      of_gpu("headgate_gpu_pcie_lanes", "PCIe lanes of the link as it runs now.", &Gpu::pcie_width),
      of_gpu("headgate_gpu_pcie_replays_total", "What the PCIe link had to send again.", &Gpu::pcie_replays),
      of_gpu("headgate_gpu_pcie_received_bytes_per_second",
             "What came over the PCIe link, in 20 ms of the last seconds: one GPU of the node is measured a second.",
             &Gpu::pcie_rx_bytes_per_second),
      of_gpu("headgate_gpu_pcie_sent_bytes_per_second", "What went out over the PCIe link, in such 20 ms.",
             &Gpu::pcie_tx_bytes_per_second),
      of_gpu("headgate_gpu_nvlinks_active", "NVLinks that are up.", &Gpu::nvlinks_active),
      of_gpu("headgate_gpu_nvlink_errors_total",
             "Errors on NVLinks of all kinds that the driver counts, all links together.", &Gpu::nvlink_errors),
      of_gpu("headgate_gpu_nvlink_received_bytes_total",
             "What came over all NVLinks together, without the protocol's own, since the driver was loaded.",
             &Gpu::nvlink_rx_bytes),
      of_gpu("headgate_gpu_nvlink_sent_bytes_total",
             "What went out over all NVLinks together, without the protocol's own, since the driver was loaded.",
             &Gpu::nvlink_tx_bytes),
      of_gpu("headgate_gpu_ecc_enabled", "1 where the card corrects memory errors.", &Gpu::ecc),
      of_gpu("headgate_gpu_mig_enabled", "1 where the card is cut into MIG slices.", &Gpu::mig),
      of_gpu("headgate_gpu_mps_clients",
             "Processes of shares that are clients of an MPS server on it; while there are, its policy is off.",
             &Gpu::mps_clients),
      {{"headgate_gpu_mig_instance_info", kGauge, "uuid, instance, profile",
        "Always 1; a MIG slice by its own UUID, and its kind."},
       [](const MetricInput& in, Samples& out) {
         each_slice(in, [&](const Gpu& gpu, const MigInstance& slice) {
           out.push_back({{{"uuid", uuid_of(gpu)}, {"instance", slice.uuid}, {"profile", slice.profile}}, 1});
         });
       }},
      of_slice("headgate_gpu_mig_instance_memory_total_bytes", "The slice's memory.", &MigInstance::memory_total_bytes),
      of_slice("headgate_gpu_mig_instance_memory_used_bytes", "Memory in use on the slice.",
               &MigInstance::memory_used_bytes),
  };
}

std::string dcgm_page(const snapshot::Snapshot& snapshot) {
  std::vector<Family> families;
  for (const DcgmField& field : dcgm_fields()) {
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
