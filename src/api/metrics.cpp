#include "api/metrics.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>

#include "base/saturated.hpp"

namespace headgate::api {
namespace {

using snapshot::Gpu;
using snapshot::MigInstance;
using snapshot::Share;
using snapshot::ShareDevice;
using snapshot::Snapshot;

struct Input {
  const Snapshot& picture;
  const DaemonFigures& own;
};
using Samples = std::vector<Sample>;
using Value = std::optional<double>;

struct Row {
  Metric metric;
  std::function<void(const Input&, Samples&)> collect;
};

constexpr Kind kGauge = Kind::gauge, kCounter = Kind::counter, kHistogram = Kind::histogram;

template <typename T>
Value number(const std::optional<T>& value, double unit = 1) {
  return value ? Value(static_cast<double>(*value) * unit) : std::nullopt;
}
template <typename T>
  requires std::is_arithmetic_v<T>
Value number(T value, double unit = 1) {
  return static_cast<double>(value) * unit;
}
constexpr double kNano = 1e-9, kMilli = 1e-3, kMega = 1e6;

// One sample of the node or the daemon.
Row single(std::string_view name, Kind kind, std::string_view help, std::function<Value(const Input&)> value) {
  return {{name, kind, "", help}, [value](const Input& in, Samples& out) {
            if (const Value found = value(in)) out.push_back({{}, *found});
          }};
}

// A GPU that does not answer has no UUID: its place among the others tells it from the next one.
std::string uuid_of(const Gpu& gpu) { return gpu.uuid.empty() ? "index-" + std::to_string(gpu.index) : gpu.uuid; }

// What the driver says now: nothing is known while its library is released, nor of a GPU that does not answer.
Row of_gpu(std::string_view name, Kind kind, std::string_view help, std::function<Value(const Gpu&)> value) {
  return {{name, kind, "uuid", help}, [value](const Input& in, Samples& out) {
            for (const Gpu& gpu : in.picture.gpus) {
              if (in.picture.node.nvml_released || gpu.memory_total_bytes == 0) continue;
              if (const Value found = value(gpu)) out.push_back({{{"uuid", uuid_of(gpu)}}, *found});
            }
          }};
}

// What the ledgers say of a GPU's shares.
Row sold_of_gpu(std::string_view name, std::string_view help, std::function<Value(const Gpu&)> value) {
  return {{name, kGauge, "uuid", help}, [value](const Input& in, Samples& out) {
            for (const Gpu& gpu : in.picture.gpus) {
              if (const Value found = value(gpu)) out.push_back({{{"uuid", uuid_of(gpu)}}, *found});
            }
          }};
}

Row of_device(std::string_view name, Kind kind, std::string_view help, std::function<Value(const ShareDevice&)> value) {
  return {{name, kind, "share, uuid", help}, [value](const Input& in, Samples& out) {
            for (const Share& share : in.picture.shares) {
              for (const ShareDevice& device : share.devices) {
                if (const Value found = value(device))
                  out.push_back({{{"share", share.name}, {"uuid", device.uuid}}, *found});
              }
            }
          }};
}

Row of_share(std::string_view name, std::string_view help,
             std::function<Value(const Share&, const Snapshot& picture)> value) {
  return {{name, kGauge, "share", help}, [value](const Input& in, Samples& out) {
            for (const Share& share : in.picture.shares) {
              if (const Value found = value(share, in.picture)) out.push_back({{{"share", share.name}}, *found});
            }
          }};
}

std::string yes_no(bool value) { return value ? "true" : "false"; }

// "reason" as other labels are written: "power cap" is power_cap.
std::string as_word(std::string text) {
  std::ranges::replace(text, ' ', '_');
  return text;
}

// Where a share's processes run, if all are at one place: the words of Process::where, parted for joins with the metrics
// of Kubernetes, engines and Slurm.
Labels place_of(const Share& share, const Snapshot& picture) {
  Labels labels = {{"where", ""}, {"namespace", ""}, {"pod", ""}, {"container", ""}, {"slurm_job", ""}};
  const std::string* where = nullptr;
  for (const auto& process : picture.processes) {
    if (process.share != share.name || process.where.empty()) continue;
    if (where != nullptr && *where != process.where) {
      labels[0].second = "several";
      return labels;
    }
    where = &process.where;
  }
  if (where == nullptr) return labels;
  labels[0].second = *where;
  const auto blank = where->find(' ');
  if (blank == std::string::npos) return labels;
  const std::string kind = where->substr(0, blank), name = where->substr(blank + 1);
  if (kind == "pod") {
    const auto slash = name.find('/');
    if (slash != std::string::npos) labels[1].second = name.substr(0, slash);
    labels[2].second = slash == std::string::npos ? name : name.substr(slash + 1);
  } else if (kind == "slurm") {
    labels[4].second = name.substr(0, name.find('.'));
  } else if (kind != "unit") {
    labels[3].second = name;
  }
  return labels;
}

// One of: whether its processes are held to its limits, as far as anybody can see.
std::string_view enforcement_of(const Share& share, const Snapshot& picture) {
  if (share.state == "broken") return "broken";
  if (std::ranges::any_of(picture.processes,
                          [&](const auto& p) { return p.share == share.name && !p.finding.empty(); }))
    return "bypassed";
  return share.level == "observe" ? "observed" : "enforced";
}

void collect_enforcement(const Input& in, Samples& out) {
  for (const Share& share : in.picture.shares) {
    const std::string_view now = enforcement_of(share, in.picture);
    for (const std::string_view state : {"enforced", "observed", "bypassed", "broken"})
      out.push_back({{{"share", share.name}, {"state", std::string(state)}}, state == now ? 1.0 : 0.0});
  }
}

void collect_gpu_info(const Input& in, Samples& out) {
  for (const Gpu& gpu : in.picture.gpus)
    out.push_back({{{"uuid", uuid_of(gpu)},
                    {"gpu", std::to_string(gpu.index)},
                    {"pci_bus_id", gpu.pci_bus_id},
                    {"model", gpu.model},
                    {"driver", in.picture.node.driver_version},
                    {"simulated", yes_no(in.picture.node.simulated)}},
                   1});
}

void collect_share_info(const Input& in, Samples& out) {
  for (const Share& share : in.picture.shares) {
    for (const ShareDevice& device : share.devices) {
      Labels labels = {{"share", share.name},
                       {"uuid", device.uuid},
                       {"user", share.owner},
                       {"level", share.level},
                       {"class", device.priority_class}};
      std::ranges::copy(place_of(share, in.picture), std::back_inserter(labels));
      out.push_back({std::move(labels), 1});
    }
  }
}

void collect_share_memory(const Input& in, Samples& out) {
  for (const Share& share : in.picture.shares) {
    for (const ShareDevice& d : share.devices) {
      const auto add = [&](const char* kind, std::uint64_t bytes) {
        out.push_back({{{"share", share.name}, {"uuid", d.uuid}, {"kind", kind}}, static_cast<double>(bytes)});
      };
      add("allocated", less(less(d.memory_used_bytes, d.memory_residual_bytes), d.memory_draining_bytes));
      add("residual", d.memory_residual_bytes);
      add("draining", d.memory_draining_bytes);
    }
  }
}

void collect_denied(const Input& in, Samples& out) {
  for (const Share& share : in.picture.shares) {
    for (const ShareDevice& d : share.devices) {
      const auto add = [&](const char* reason, std::uint64_t count) {
        out.push_back({{{"share", share.name}, {"uuid", d.uuid}, {"reason", reason}}, static_cast<double>(count)});
      };
      add("limit", less(less(d.refusals, d.refusals_device_full), d.refusals_policy));
      add("device_full", d.refusals_device_full);
      add("policy", d.refusals_policy);
    }
  }
}

// Counts of a page that tenants can write: their sums do not begin anew at nothing, so that no bucket is less than the one before.
void collect_launch_delays(const Input& in, Samples& out) {
  for (const Share& share : in.picture.shares) {
    for (const ShareDevice& d : share.devices) {
      if (d.launch_delays.empty()) continue;
      Sample& sample =
          out.emplace_back(Sample{{{"share", share.name}, {"uuid", d.uuid}}, *number(d.throttled_ns, kNano)});
      std::uint64_t count = 0;
      for (const auto& [up_to_ns, launches] : d.launch_delays) {
        count = saturated(count, launches);
        // Divided, which rounds once: 1e-05, not 1.0000000000000001e-05.
        const double up_to = up_to_ns ? static_cast<double>(*up_to_ns) / 1e9 : std::numeric_limits<double>::infinity();
        sample.buckets.push_back({up_to, count});
      }
    }
  }
}

void collect_clocks(const Input& in, Samples& out) {
  for (const Gpu& gpu : in.picture.gpus) {
    if (in.picture.node.nvml_released) return;
    if (const Value sm = number(gpu.sm_clock_mhz, kMega))
      out.push_back({{{"uuid", uuid_of(gpu)}, {"domain", "sm"}}, *sm});
    if (const Value memory = number(gpu.memory_clock_mhz, kMega))
      out.push_back({{{"uuid", uuid_of(gpu)}, {"domain", "memory"}}, *memory});
  }
}

void of_slices(const Input& in, Samples& out, Value (*value)(const MigInstance&), bool named = false) {
  if (in.picture.node.nvml_released) return;
  for (const Gpu& gpu : in.picture.gpus) {
    for (const MigInstance& slice : gpu.mig_instances) {
      const Value found = value(slice);
      if (!found) continue;
      Labels labels = {{"uuid", uuid_of(gpu)}, {"instance", slice.uuid}};
      if (named) labels.emplace_back("profile", slice.profile);
      out.push_back({std::move(labels), *found});
    }
  }
}

std::vector<Row> node_rows() {
  return {
      {{"headgate_build_info", kGauge, "version", "Always 1; what runs here."},
       [](const Input& in, Samples& out) { out.push_back({{{"version", in.picture.node.version}}, 1}); }},
      {{"headgate_node_info", kGauge, "node, driver, level, simulated",
        "Always 1; level is the weakest by which a share of the node is held."},
       [](const Input& in, Samples& out) {
         const auto& node = in.picture.node;
         out.push_back({{{"node", node.name},
                         {"driver", node.driver_version},
                         {"level", node.level},
                         {"simulated", yes_no(node.simulated)}},
                        1});
       }},
      single("headgate_node_shares", kGauge, "Shares on the node.",
             [](const Input& in) { return number(in.picture.node.shares); }),
      single("headgate_node_unattended_processes", kGauge,
             "Processes that use a GPU outside every share, but for the exempt.",
             [](const Input& in) { return number(in.picture.node.unattended_processes); }),
      single("headgate_node_reserve_bytes", kGauge, "Memory of each GPU that is never sold.",
             [](const Input& in) { return number(in.picture.node.reserve_bytes); }),
      single("headgate_node_driver_released", kGauge,
             "1 while the driver's library is closed, on request or because it does not answer: figures of GPUs are "
             "missing meanwhile.",
             [](const Input& in) { return number(in.picture.node.nvml_released ? 1 : 0); }),
  };
}

std::vector<Row> gpu_rows() {
  return {
      {{"headgate_gpu_info", kGauge, "uuid, gpu, pci_bus_id, model, driver, simulated",
        "Always 1; join by uuid for the GPU's place and model."},
       collect_gpu_info},
      of_gpu("headgate_gpu_memory_total_bytes", kGauge, "The card's memory, as NVML counts it.",
             [](const Gpu& g) { return number(g.memory_total_bytes); }),
      of_gpu("headgate_gpu_memory_used_bytes", kGauge, "Memory in use, by shares and by others.",
             [](const Gpu& g) { return number(g.memory_used_bytes); }),
      of_gpu("headgate_gpu_memory_free_bytes", kGauge, "Memory that nobody uses.",
             [](const Gpu& g) { return number(g.memory_free_bytes); }),
      of_gpu("headgate_gpu_memory_reserved_bytes", kGauge, "Memory that driver and firmware keep for themselves.",
             [](const Gpu& g) { return number(g.memory_reserved_bytes); }),
      of_gpu("headgate_gpu_memory_unattributed_bytes", kGauge, "Memory in use that no share's ledger knows of.",
             [](const Gpu& g) { return number(g.memory_unattributed_bytes); }),
      sold_of_gpu("headgate_gpu_memory_sold_bytes", "Memory limits of the shares on it, together.",
                  [](const Gpu& g) { return number(g.memory_sold_bytes); }),
      sold_of_gpu("headgate_gpu_memory_shares_bytes", "Memory in use by shares, by their ledgers.",
                  [](const Gpu& g) { return number(g.memory_shares_bytes); }),
      sold_of_gpu("headgate_gpu_unlimited_shares", "Shares on it without a memory limit.",
                  [](const Gpu& g) { return number(g.unlimited_shares); }),
      sold_of_gpu("headgate_gpu_waiting_requests", "Requests for shares that wait for room on it.",
                  [](const Gpu& g) { return number(g.waiting); }),
      sold_of_gpu(
          "headgate_gpu_compute_sold_ratio",
          "Guarantees of the shares on it, and ceilings of those of class latency, together; 1 is the whole GPU.",
          [](const Gpu& g) { return number(g.compute_sold_ratio); }),
      of_gpu("headgate_gpu_busy_ratio", kGauge,
             "Part of the last second or so in which some kernel ran (NVML's utilization).",
             [](const Gpu& g) { return number(g.busy_ratio); }),
      of_gpu(
          "headgate_gpu_sm_active_ratio", kGauge,
          "Part of all its SMs' time in which they had work, over the last second or so; cards from Hopper on tell it.",
          [](const Gpu& g) { return number(g.sm_active_ratio); }),
      of_gpu("headgate_gpu_memory_busy_ratio", kGauge, "Part of that time in which memory was read or written.",
             [](const Gpu& g) { return number(g.memory_busy_ratio); }),
      of_gpu("headgate_gpu_encoder_busy_ratio", kGauge,
             "Part of the time in which video was encoded: by an engine that no share is charged for.",
             [](const Gpu& g) { return number(g.encoder_busy_ratio); }),
      of_gpu("headgate_gpu_decoder_busy_ratio", kGauge, "The same of decoding.",
             [](const Gpu& g) { return number(g.decoder_busy_ratio); }),
      of_gpu("headgate_gpu_power_watts", kGauge, "Power drawn.",
             [](const Gpu& g) { return number(g.power_mw, kMilli); }),
      of_gpu("headgate_gpu_power_limit_watts", kGauge, "Power limit in force.",
             [](const Gpu& g) { return number(g.power_limit_mw, kMilli); }),
      of_gpu("headgate_gpu_energy_joules_total", kCounter, "Energy used since the driver was loaded.",
             [](const Gpu& g) { return number(g.energy_mj, kMilli); }),
      of_gpu(
          "headgate_gpu_half_precision_flops", kGauge,
          "Dense FP16 operations in a second, by the maker's data sheet; times a share's rate of GPU seconds, what it "
          "could have computed at most.",
          [](const Gpu& g) { return number(g.half_precision_tflops, 1e12); }),
      of_gpu("headgate_gpu_temperature_celsius", kGauge, "Temperature of the GPU.",
             [](const Gpu& g) { return number(g.temperature_celsius); }),
      {{"headgate_gpu_clock_hertz", kGauge, "uuid, domain", "Clock rate; domain is sm or memory."}, collect_clocks},
      {{"headgate_gpu_throttled_seconds_total", kCounter, "uuid, reason",
        "Time during which the driver held clocks down, by reason; sampled once a picture."},
       [](const Input& in, Samples& out) {
         for (const auto& [key, seconds] : in.own.sums.throttled_seconds)
           out.push_back({{{"uuid", key.first}, {"reason", as_word(key.second)}}, seconds});
       }},
      {{"headgate_gpu_xid_events_total", kCounter, "uuid, xid",
        "Errors that the driver reported since the daemon started."},
       [](const Input& in, Samples& out) {
         for (const Gpu& gpu : in.picture.gpus) {
           for (const auto& [xid, count] : gpu.xids)
             out.push_back({{{"uuid", uuid_of(gpu)}, {"xid", std::to_string(xid)}}, static_cast<double>(count)});
         }
       }},
      of_gpu("headgate_gpu_ecc_corrected_errors_total", kCounter,
             "Memory errors that were corrected, since the driver was loaded.",
             [](const Gpu& g) { return number(g.ecc_corrected_errors); }),
      of_gpu("headgate_gpu_ecc_uncorrected_errors_total", kCounter,
             "Memory errors that could not be corrected, since the driver was loaded.",
             [](const Gpu& g) { return number(g.ecc_uncorrected_errors); }),
      of_gpu("headgate_gpu_ecc_lifetime_corrected_errors_total", kCounter,
             "Memory errors that were corrected, in the card's life.",
             [](const Gpu& g) { return number(g.ecc_lifetime_corrected_errors); }),
      of_gpu("headgate_gpu_ecc_lifetime_uncorrected_errors_total", kCounter,
             "Memory errors that could not be corrected, in the card's life.",
             [](const Gpu& g) { return number(g.ecc_lifetime_uncorrected_errors); }),
      of_gpu("headgate_gpu_pcie_generation", kGauge, "PCIe generation of the link as it runs now.",
             [](const Gpu& g) { return number(g.pcie_generation); }),
      of_gpu("headgate_gpu_pcie_lanes", kGauge, "PCIe lanes of the link as it runs now.",
             [](const Gpu& g) { return number(g.pcie_width); }),
      of_gpu("headgate_gpu_pcie_replays_total", kCounter, "What the PCIe link had to send again.",
             [](const Gpu& g) { return number(g.pcie_replays); }),
      of_gpu("headgate_gpu_pcie_received_bytes_per_second", kGauge,
             "What came over the PCIe link, in 20 ms of the last seconds: one GPU of the node is measured a second.",
             [](const Gpu& g) { return number(g.pcie_rx_bytes_per_second); }),
      of_gpu("headgate_gpu_pcie_sent_bytes_per_second", kGauge, "What went out over the PCIe link, in such 20 ms.",
             [](const Gpu& g) { return number(g.pcie_tx_bytes_per_second); }),
      of_gpu("headgate_gpu_nvlinks_active", kGauge, "NVLinks that are up.",
             [](const Gpu& g) { return number(g.nvlinks_active); }),
      of_gpu("headgate_gpu_nvlink_errors_total", kCounter,
             "Errors on NVLinks of all kinds that the driver counts, all links together.",
             [](const Gpu& g) { return number(g.nvlink_errors); }),
      of_gpu("headgate_gpu_nvlink_received_bytes_total", kCounter,
             "What came over all NVLinks together, without the protocol's own, since the driver was loaded.",
             [](const Gpu& g) { return number(g.nvlink_rx_bytes); }),
      of_gpu("headgate_gpu_nvlink_sent_bytes_total", kCounter,
             "What went out over all NVLinks together, without the protocol's own, since the driver was loaded.",
             [](const Gpu& g) { return number(g.nvlink_tx_bytes); }),
      of_gpu("headgate_gpu_ecc_enabled", kGauge, "1 where the card corrects memory errors.",
             [](const Gpu& g) { return number(g.ecc); }),
      of_gpu("headgate_gpu_mig_enabled", kGauge, "1 where the card is cut into MIG slices.",
             [](const Gpu& g) { return number(g.mig); }),
      of_gpu("headgate_gpu_mps_clients", kGauge,
             "Processes of shares that are clients of an MPS server on it; while there are, its policy is off.",
             [](const Gpu& g) { return number(g.mps_clients); }),
      {{"headgate_gpu_mig_instance_info", kGauge, "uuid, instance, profile",
        "Always 1; a MIG slice by its own UUID, and its kind."},
       [](const Input& in, Samples& out) {
         of_slices(in, out, [](const MigInstance&) -> Value { return 1.0; }, true);
       }},
      {{"headgate_gpu_mig_instance_memory_total_bytes", kGauge, "uuid, instance", "The slice's memory."},
       [](const Input& in, Samples& out) {
         of_slices(in, out, [](const MigInstance& m) { return number(m.memory_total_bytes); });
       }},
      {{"headgate_gpu_mig_instance_memory_used_bytes", kGauge, "uuid, instance", "Memory in use on the slice."},
       [](const Input& in, Samples& out) {
         of_slices(in, out, [](const MigInstance& m) { return number(m.memory_used_bytes); });
       }},
  };
}

std::vector<Row> share_memory_rows() {
  return {
      {{"headgate_share_info", kGauge, "share, uuid, user, level, class, where, namespace, pod, container, slurm_job",
        "Always 1; whose share it is, how it is held, and where its processes run if all are at one place."},
       collect_share_info},
      of_device("headgate_share_memory_limit_bytes", kGauge, "Memory limit; not there where the share has none.",
                [](const ShareDevice& d) { return number(d.memory_limit_bytes); }),
      of_device("headgate_share_memory_used_bytes", kGauge, "Memory in use, all kinds together.",
                [](const ShareDevice& d) { return number(d.memory_used_bytes); }),
      of_device("headgate_share_memory_frozen_bytes", kGauge, "Of these, on the host: its processes there are idle.",
                [](const ShareDevice& d) { return number(d.memory_frozen_bytes); }),
      of_device(
          "headgate_share_memory_peak_bytes", kGauge,
          "The most memory that was in use at one time, all kinds together; what the driver refused is not in it.",
          [](const ShareDevice& d) { return number(d.memory_peak_bytes); }),
      {{"headgate_share_memory_bytes", kGauge, "share, uuid, kind",
        "Memory in use: allocated; residual (contexts, loaded code: measured, no call tells of it); draining (outlives "
        "its process)."},
       collect_share_memory},
      of_device("headgate_share_host_memory_limit_bytes", kGauge, "Host memory that may stand in for the GPU's.",
                [](const ShareDevice& d) { return number(d.host_limit_bytes); }),
      of_device("headgate_share_host_memory_used_bytes", kGauge, "Host memory that stands in for the GPU's.",
                [](const ShareDevice& d) { return number(d.host_used_bytes); }),
      {{"headgate_share_allocation_denied_total", kCounter, "share, uuid, reason",
        "Allocations refused; reason is limit (the share's own), device_full (the driver had no memory, though the "
        "share "
        "had room) or policy (the share was being drained)."},
       collect_denied},
  };
}

std::vector<Row> share_compute_rows() {
  return {
      of_device("headgate_share_compute_guarantee_ratio", kGauge,
                "Part of the GPU's time that it has whatever others want.",
                [](const ShareDevice& d) { return number(d.compute_guarantee_ratio); }),
      of_device("headgate_share_compute_ceiling_ratio", kGauge,
                "The most of the GPU's time that it may have; 1 is no limit.",
                [](const ShareDevice& d) { return number(d.compute_ceiling_ratio); }),
      of_device("headgate_share_weight", kGauge, "Its part of what is left, against the weights of others.",
                [](const ShareDevice& d) { return number(d.weight); }),
      of_device("headgate_share_gpu_seconds_total", kCounter,
                "GPU time held; its rate is the share's part of the GPU. Not there where its work is not measured.",
                [](const ShareDevice& d) { return d.metered ? number(d.held_ns, kNano) : std::nullopt; }),
      of_device("headgate_share_gpu_seconds_estimated_total", kCounter,
                "The part of the GPU time held that was estimated, not measured; not there as the time held.",
                [](const ShareDevice& d) { return d.metered ? number(d.estimated_ns, kNano) : std::nullopt; }),
      of_device("headgate_share_throttled_seconds_total", kCounter,
                "Time that launching threads waited at the gate, summed over threads; of those that still wait too.",
                [](const ShareDevice& d) { return number(d.throttled_ns, kNano); }),
      of_device("headgate_share_throttled_launches_total", kCounter, "Launches that waited at the gate.",
                [](const ShareDevice& d) { return number(d.throttled_launches); }),
      {{"headgate_share_waited_seconds_total", kCounter, "share, uuid, cause",
        "The same, by what was waited for: ceiling (its own limit), turn (other shares had the GPU), work (its own, "
        "sent "
        "before), pause."},
       [](const Input& in, Samples& out) {
         for (const Share& share : in.picture.shares) {
           for (const ShareDevice& device : share.devices) {
             const std::pair<const char*, std::uint64_t> causes[] = {{"ceiling", device.waited_ceiling_ns},
                                                                     {"turn", device.waited_turn_ns},
                                                                     {"work", device.waited_work_ns},
                                                                     {"pause", device.waited_pause_ns}};
             for (const auto& [cause, ns] : causes)
               out.push_back(
                   {{{"share", share.name}, {"uuid", device.uuid}, {"cause", cause}}, 1e-9 * static_cast<double>(ns)});
           }
         }
       }},
      of_device("headgate_share_launches_in_debt_total", kCounter,
                "Launches let through a shut gate so that nothing waits for ever; charged as debt.",
                [](const ShareDevice& d) { return number(d.passed_in_debt); }),
      {{"headgate_share_launch_delay_seconds", kHistogram, "share, uuid",
        "How long launches that were metered waited at the gate; those that did not wait are in the first bucket."},
       collect_launch_delays},
      {{"headgate_share_energy_joules_total", kCounter, "share, uuid, method",
        "Estimate: the GPU's energy in the time that the share held it; method is exclusive where nobody else worked "
        "there "
        "meanwhile, model where it was split by GPU time."},
       [](const Input& in, Samples& out) {
         for (const auto& [key, joules] : in.own.sums.share_energy) {
           const auto& [share, uuid, method] = key;
           if (std::ranges::find(in.picture.shares, share, &Share::name) != in.picture.shares.end())
             out.push_back({{{"share", share}, {"uuid", uuid}, {"method", method}}, joules});
         }
       }},
      {{"headgate_share_hook_errors_total", kCounter, "share, uuid, api",
        "Contexts whose GPU time is no longer measured, by the driver's call that failed."},
       [](const Input& in, Samples& out) {
         for (const Share& share : in.picture.shares) {
           for (const ShareDevice& d : share.devices) {
             for (const auto& [api, count] : d.hook_errors)
               out.push_back({{{"share", share.name}, {"uuid", d.uuid}, {"api", api}}, static_cast<double>(count)});
           }
         }
       }},
  };
}

std::vector<Row> share_rows() {
  return {
      of_share("headgate_share_processes", "Processes that run in it.",
               [](const Share& s, const Snapshot&) { return number(s.processes); }),
      of_share("headgate_share_frozen_processes", "Of these, those that are idle and have their memory on the host.",
               [](const Share& s, const Snapshot&) { return number(s.frozen_processes); }),
      {{"headgate_share_freezes_total", kCounter, "share", "How often memory of its idle processes went to the host."},
       [](const Input& in, Samples& out) {
         for (const Share& s : in.picture.shares)
           if (s.state != "broken") out.push_back({{{"share", s.name}}, static_cast<double>(s.freezes)});
       }},
      {{"headgate_share_thaws_total", kCounter, "share", "How often it came back, by a call of theirs."},
       [](const Input& in, Samples& out) {
         for (const Share& s : in.picture.shares)
           if (s.state != "broken") out.push_back({{{"share", s.name}}, static_cast<double>(s.thaws)});
       }},
      of_share("headgate_share_last_activity_timestamp_seconds",
               "When it last used a GPU, or waited for one, as far as this daemon has seen.",
               [](const Share& s, const Snapshot& picture) -> Value {
                 if (s.state == "broken") return std::nullopt;
                 return number(less(picture.taken_unix_ns, s.idle_ns), kNano);
               }),
      of_share("headgate_share_ttl_seconds", "Time until it ends by itself; not there where it does not.",
               [](const Share& s, const Snapshot&) { return number(s.ttl_ns, kNano); }),
      {{"headgate_share_enforcement", kGauge, "share, state",
        "1 for the state that holds: enforced, observed (nothing holds it), bypassed (the audit says so), broken."},
       collect_enforcement},
  };
}

std::vector<Row> daemon_rows() {
  return {
      single("headgate_daemon_clients", kGauge, "Connections to the control socket and the TCP address.",
             [](const Input& in) { return number(in.own.sums.clients); }),
      {{"headgate_daemon_events_total", kCounter, "kind", "Events since the daemon started, by kind."},
       [](const Input& in, Samples& out) {
         for (const auto& [kind, count] : in.own.sums.events)
           out.push_back({{{"kind", kind}}, static_cast<double>(count)});
       }},
      {{"headgate_daemon_recoveries_total", kCounter, "kind",
        "Shares that the daemon found when it started: adopted as they were, restored from its store, or broken and "
        "left so."},
       [](const Input& in, Samples& out) {
         for (const char* kind : {"adopted", "restored", "broken"}) {
           const auto found = in.own.sums.events.find(std::string("share.") + kind);
           out.push_back(
               {{{"kind", kind}}, found == in.own.sums.events.end() ? 0.0 : static_cast<double>(found->second)});
         }
       }},
      single("headgate_daemon_sample_age_seconds", kGauge,
             "Time since the driver last answered; what this page says of GPUs is of then.",
             [](const Input& in) { return number(less(in.own.now_ns, in.own.driver_answered_ns), kNano); }),
      single("headgate_daemon_scrape_duration_seconds", kGauge, "What the page before this one took to make.",
             [](const Input& in) { return number(in.own.sums.scrape_seconds); }),
      single("headgate_daemon_start_time_seconds", kGauge, "When the daemon started, since the epoch.",
             [](const Input& in) { return number(in.picture.node.started_unix_ns, kNano); }),
      single("headgate_daemon_cpu_seconds_total", kCounter, "Processor time that the daemon has used.",
             [](const Input& in) { return number(in.own.cpu_seconds); }),
      single("headgate_daemon_resident_memory_bytes", kGauge, "The daemon's resident memory.",
             [](const Input& in) { return number(in.own.resident_bytes); }),
      single("headgate_daemon_open_files", kGauge, "Descriptors that the daemon holds.",
             [](const Input& in) { return number(in.own.open_files); }),
      {{"headgate_arbiter_decision_seconds", kHistogram, "",
        "How long each time took that the arbiter looked at the shares, decided and wrote their gates."},
       [](const Input& in, Samples& out) {
         if (in.own.decision_seconds) out.push_back({{}, *in.own.decision_seconds, in.own.decisions});
       }},
      single("headgate_arbiter_gate_changes_total", kCounter, "Gates that it wrote anew.",
             [](const Input& in) { return number(in.own.gate_changes); }),
      single("headgate_arbiter_doorbell_rings_total", kCounter, "Rings of limiters that it heard.",
             [](const Input& in) { return number(in.own.doorbell_rings); }),
  };
}

const std::vector<Row>& rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> table;
    for (auto* part : {node_rows, gpu_rows, share_memory_rows, share_compute_rows, share_rows, daemon_rows})
      std::ranges::move(part(), std::back_inserter(table));
    return table;
  }();
  return all;
}

}  // namespace

std::vector<Metric> metrics() {
  std::vector<Metric> all;
  for (const Row& row : rows()) all.push_back(row.metric);
  return all;
}

std::vector<Family> families_of(const Snapshot& picture, const DaemonFigures& own) {
  std::vector<Family> families;
  for (const auto& [metric, collect] : rows()) {
    families.push_back({std::string(metric.name), std::string(metric.help), metric.kind, {}});
    collect({picture, own}, families.back().samples);
  }
  return families;
}

std::string metrics_page(const Snapshot& picture, const DaemonFigures& own) { return page(families_of(picture, own)); }

}  // namespace headgate::api
