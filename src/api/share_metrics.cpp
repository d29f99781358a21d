// Share rows of /metrics.
#include <algorithm>
#include <iterator>
#include <limits>

#include "api/metric_rows.hpp"
#include "base/saturating_math.hpp"

namespace headgate::api {
namespace {

using snapshot::Share;
using snapshot::ShareDevice;
using snapshot::Snapshot;

MetricRow of_device(std::string_view name, Kind kind, std::string_view help,
                    std::function<Value(const ShareDevice&)> value) {
  return {{name, kind, "share, uuid", help}, [value](const MetricInput& in, Samples& out) {
            for (const Share& share : in.snapshot.shares) {
              for (const ShareDevice& device : share.devices) {
                if (const Value found = value(device))
                  out.push_back({{{"share", share.name}, {"uuid", device.uuid}}, *found});
              }
            }
          }};
}

MetricRow of_share(std::string_view name, std::string_view help,
                   std::function<Value(const Share&, const Snapshot& snapshot)> value) {
  return {{name, kGauge, "share", help}, [value](const MetricInput& in, Samples& out) {
            for (const Share& share : in.snapshot.shares) {
              if (const Value found = value(share, in.snapshot)) out.push_back({{{"share", share.name}}, *found});
            }
          }};
}

// Returns where a share's processes run if all are at one place: Process::where, split for joins with metrics of
// Kubernetes, container engines and Slurm.
Labels place_of(const Share& share, const Snapshot& snapshot) {
  Labels labels = {{"where", ""}, {"namespace", ""}, {"pod", ""}, {"container", ""}, {"slurm_job", ""}};
  const std::string* where = nullptr;
  for (const auto& process : snapshot.processes) {
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
  const std::string kind = where->substr(0, blank);
  std::string name = where->substr(blank + 1);
  if (kind == "pod") {
    // "pod UID, ENGINE CONTAINER"; unknown parts are missing.
    if (const auto comma = name.find(", "); comma != std::string::npos) {
      if (const auto id = name.find(' ', comma + 2); id != std::string::npos) labels[3].second = name.substr(id + 1);
      name.resize(comma);
    }
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

// Returns one word: whether the share's limits are enforced on its processes, as far as can be observed.
std::string_view enforcement_of(const Share& share, const Snapshot& snapshot) {
  if (share.state == "broken") return "broken";
  if (std::ranges::any_of(snapshot.processes,
                          [&](const auto& p) { return p.share == share.name && !p.finding.empty(); }))
    return "bypassed";
  return share.level == "observe" ? "observed" : "enforced";
}

void collect_enforcement(const MetricInput& in, Samples& out) {
  for (const Share& share : in.snapshot.shares) {
    const std::string_view now = enforcement_of(share, in.snapshot);
    for (const std::string_view state : {"enforced", "observed", "bypassed", "broken"})
      out.push_back({{{"share", share.name}, {"state", std::string(state)}}, state == now ? 1.0 : 0.0});
  }
}

void collect_share_info(const MetricInput& in, Samples& out) {
  for (const Share& share : in.snapshot.shares) {
    for (const ShareDevice& device : share.devices) {
      Labels labels = {{"share", share.name},
                       {"uuid", device.uuid},
                       {"user", share.owner},
                       {"level", share.level},
                       {"class", device.priority_class}};
      std::ranges::copy(place_of(share, in.snapshot), std::back_inserter(labels));
      out.push_back({std::move(labels), 1});
    }
  }
}

void collect_share_memory(const MetricInput& in, Samples& out) {
  for (const Share& share : in.snapshot.shares) {
    for (const ShareDevice& d : share.devices) {
      const auto add = [&](const char* kind, std::uint64_t bytes) {
        out.push_back({{{"share", share.name}, {"uuid", d.uuid}, {"kind", kind}}, static_cast<double>(bytes)});
      };
      add("allocated",
          saturating_sub(saturating_sub(d.memory_used_bytes, d.memory_residual_bytes), d.memory_draining_bytes));
      add("residual", d.memory_residual_bytes);
      add("draining", d.memory_draining_bytes);
    }
  }
}

void collect_denied(const MetricInput& in, Samples& out) {
  for (const Share& share : in.snapshot.shares) {
    for (const ShareDevice& d : share.devices) {
      const auto add = [&](const char* reason, std::uint64_t count) {
        out.push_back({{{"share", share.name}, {"uuid", d.uuid}, {"reason", reason}}, static_cast<double>(count)});
      };
      add("limit", saturating_sub(saturating_sub(d.refusals, d.refusals_device_full), d.refusals_policy));
      add("device_full", d.refusals_device_full);
      add("policy", d.refusals_policy);
    }
  }
}

// Tenants can write this page. The sums saturate instead of wrapping to 0, so that no bucket is less than the one
// before it.
void collect_launch_delays(const MetricInput& in, Samples& out) {
  for (const Share& share : in.snapshot.shares) {
    for (const ShareDevice& d : share.devices) {
      if (d.launch_delays.empty()) continue;
      Sample& sample =
          out.emplace_back(Sample{{{"share", share.name}, {"uuid", d.uuid}}, *number(d.throttled_ns, kNano)});
      std::uint64_t count = 0;
      for (const auto& [up_to_ns, launches] : d.launch_delays) {
        count = saturating_add(count, launches);
        // Division rounds once: 1e-05, not 1.0000000000000001e-05.
        const double up_to = up_to_ns ? static_cast<double>(*up_to_ns) / 1e9 : std::numeric_limits<double>::infinity();
        sample.buckets.push_back({up_to, count});
      }
    }
  }
}

std::vector<MetricRow> share_memory_rows() {
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

std::vector<MetricRow> share_compute_rows() {
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
      of_device("headgate_share_short_seconds_total", kCounter,
                "GPU time that the promise owed the share while it wanted the GPU, and that it did not have.",
                [](const ShareDevice& d) { return d.short_ratio ? number(d.short_ns, kNano) : std::nullopt; }),
      of_device("headgate_share_short_ratio", kGauge,
                "The same over the last 10 s, as part of the GPU; 0 where the promise was kept.",
                [](const ShareDevice& d) { return number(d.short_ratio); }),
      of_device("headgate_share_wanted_ratio", kGauge,
                "Part of the last 10 s in which it had work for the GPU or waited for it.",
                [](const ShareDevice& d) { return number(d.wanted_ratio); }),
      of_device("headgate_share_throttled_seconds_total", kCounter,
                "Time that launching threads waited at the gate, summed over threads; of those that still wait too.",
                [](const ShareDevice& d) { return number(d.throttled_ns, kNano); }),
      of_device("headgate_share_throttled_launches_total", kCounter, "Launches that waited at the gate.",
                [](const ShareDevice& d) { return number(d.throttled_launches); }),
      {{"headgate_share_waited_seconds_total", kCounter, "share, uuid, cause",
        "The same, by what was waited for: ceiling (its own limit), turn (other shares had the GPU), work (its own, "
        "sent "
        "before), pause."},
       [](const MetricInput& in, Samples& out) {
         for (const Share& share : in.snapshot.shares) {
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
        "Estimate: the GPU's energy in the time that the share held it; method is exclusive if no other share worked "
        "there "
        "meanwhile, model where it was split by GPU time."},
       [](const MetricInput& in, Samples& out) {
         for (const auto& [key, joules] : in.own.sums.share_energy) {
           const auto& [share, uuid, method] = key;
           if (std::ranges::find(in.snapshot.shares, share, &Share::name) != in.snapshot.shares.end())
             out.push_back({{{"share", share}, {"uuid", uuid}, {"method", method}}, joules});
         }
       }},
      {{"headgate_share_hook_errors_total", kCounter, "share, uuid, api",
        "Contexts whose GPU time could not be measured for 100 ms, by the driver's call that failed."},
       [](const MetricInput& in, Samples& out) {
         for (const Share& share : in.snapshot.shares) {
           for (const ShareDevice& d : share.devices) {
             for (const auto& [api, count] : d.hook_errors)
               out.push_back({{{"share", share.name}, {"uuid", d.uuid}, {"api", api}}, static_cast<double>(count)});
           }
         }
       }},
  };
}

std::vector<MetricRow> share_state_rows() {
  return {
      of_share("headgate_share_processes", "Processes that run in it.",
               [](const Share& s, const Snapshot&) { return number(s.processes); }),
      of_share("headgate_share_frozen_processes", "Of these, those that are idle and have their memory on the host.",
               [](const Share& s, const Snapshot&) { return number(s.frozen_processes); }),
      {{"headgate_share_freezes_total", kCounter, "share", "How often memory of its idle processes went to the host."},
       [](const MetricInput& in, Samples& out) {
         for (const Share& s : in.snapshot.shares)
           if (s.state != "broken") out.push_back({{{"share", s.name}}, static_cast<double>(s.freezes)});
       }},
      {{"headgate_share_thaws_total", kCounter, "share", "How often it came back, by a call of theirs."},
       [](const MetricInput& in, Samples& out) {
         for (const Share& s : in.snapshot.shares)
           if (s.state != "broken") out.push_back({{{"share", s.name}}, static_cast<double>(s.thaws)});
       }},
      of_share("headgate_share_last_activity_timestamp_seconds",
               "When it last used a GPU, or waited for one, as far as this daemon has seen.",
               [](const Share& s, const Snapshot& snapshot) -> Value {
                 if (s.state == "broken") return std::nullopt;
                 return number(saturating_sub(snapshot.taken_unix_ns, s.idle_ns), kNano);
               }),
      of_share("headgate_share_ttl_seconds", "Time until it ends by itself; not there where it does not.",
               [](const Share& s, const Snapshot&) { return number(s.ttl_ns, kNano); }),
      {{"headgate_share_enforcement", kGauge, "share, state",
        "1 for the state that holds: enforced, observed (nothing holds it), bypassed (the audit says so), broken."},
       collect_enforcement},
  };
}

}  // namespace

std::vector<MetricRow> share_rows() {
  std::vector<MetricRow> table = share_memory_rows();
  std::ranges::move(share_compute_rows(), std::back_inserter(table));
  std::ranges::move(share_state_rows(), std::back_inserter(table));
  return table;
}

}  // namespace headgate::api
