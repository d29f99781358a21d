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

// Calls visit(share, device) for each GPU of each share.
template <typename Visit>
void each_device(const MetricInput& in, Visit&& visit) {
  for (const Share& share : in.snapshot.shares)
    for (const ShareDevice& device : share.devices) visit(share, device);
}

// `of`: a member of ShareDevice, or a function of one.
template <typename Of>
MetricRow of_device(std::string_view name, std::string_view help, Of of, double unit = 1) {
  return {{name, kind_of(name), "share, uuid", help}, [of, unit](const MetricInput& in, Samples& out) {
            each_device(in, [&](const Share& share, const ShareDevice& device) {
              if (const Value found = number(std::invoke(of, device), unit))
                out.push_back({{{"share", share.name}, {"uuid", device.uuid}}, *found});
            });
          }};
}

// One sample for each part of a figure; the last of `labels` names the part.
using Parts = std::vector<std::pair<std::string, std::uint64_t>>;
MetricRow of_device_parts(std::string_view name, std::string_view labels, std::string_view help,
                          Parts (*parts)(const ShareDevice&), double unit = 1) {
  const std::string label(labels.substr(labels.rfind(' ') + 1));
  return {{name, kind_of(name), labels, help}, [label, parts, unit](const MetricInput& in, Samples& out) {
            each_device(in, [&](const Share& share, const ShareDevice& device) {
              for (const auto& [part, value] : parts(device))
                out.push_back({{{"share", share.name}, {"uuid", device.uuid}, {label, part}}, *number(value, unit)});
            });
          }};
}

template <typename Of>
MetricRow of_share(std::string_view name, std::string_view help, Of of, double unit = 1) {
  return {{name, kind_of(name), "share", help}, [of, unit](const MetricInput& in, Samples& out) {
            for (const Share& share : in.snapshot.shares) {
              if (const Value found = number(std::invoke(of, share), unit))
                out.push_back({{{"share", share.name}}, *found});
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
  each_device(in, [&](const Share& share, const ShareDevice& device) {
    Labels labels = {{"share", share.name},
                     {"uuid", device.uuid},
                     {"user", share.owner},
                     {"level", share.level},
                     {"class", device.priority_class}};
    std::ranges::copy(place_of(share, in.snapshot), std::back_inserter(labels));
    out.push_back({std::move(labels), 1});
  });
}

Parts memory_parts(const ShareDevice& d) {
  return {{"allocated",
           saturating_sub(saturating_sub(d.memory_used_bytes, d.memory_residual_bytes), d.memory_draining_bytes)},
          {"residual", d.memory_residual_bytes},
          {"draining", d.memory_draining_bytes}};
}

Parts refusal_parts(const ShareDevice& d) {
  return {{"limit", saturating_sub(saturating_sub(d.refusals, d.refusals_device_full), d.refusals_policy)},
          {"device_full", d.refusals_device_full},
          {"policy", d.refusals_policy}};
}

// Tenants can write this page. The sums saturate instead of wrapping to 0, so that no bucket is less than the one
// before it.
void collect_launch_delays(const MetricInput& in, Samples& out) {
  each_device(in, [&](const Share& share, const ShareDevice& d) {
    if (d.launch_delays.empty()) return;
    Sample& sample =
        out.emplace_back(Sample{{{"share", share.name}, {"uuid", d.uuid}}, *number(d.throttled_ns, kNano)});
    std::uint64_t count = 0;
    for (const auto& [up_to_ns, launches] : d.launch_delays) {
      count = saturating_add(count, launches);
      // Division rounds once: 1e-05, not 1.0000000000000001e-05.
      const double up_to = up_to_ns ? static_cast<double>(*up_to_ns) / 1e9 : std::numeric_limits<double>::infinity();
      sample.buckets.push_back({up_to, count});
    }
  });
}

std::vector<MetricRow> share_memory_rows() {
  return {
      {{"headgate_share_info", kGauge, "share, uuid, user, level, class, where, namespace, pod, container, slurm_job",
        "Always 1; whose share it is, how it is held, and where its processes run if all are at one place."},
       collect_share_info},
      of_device("headgate_share_memory_limit_bytes", "Memory limit; not there where the share has none.",
                &ShareDevice::memory_limit_bytes),
      of_device("headgate_share_memory_used_bytes", "Memory in use, all kinds together.",
                &ShareDevice::memory_used_bytes),
      of_device("headgate_share_memory_frozen_bytes", "Of these, on the host: its processes there are idle.",
                &ShareDevice::memory_frozen_bytes),
      of_device(
          "headgate_share_memory_peak_bytes",
          "The most memory that was in use at one time, all kinds together; what the driver refused is not in it.",
          &ShareDevice::memory_peak_bytes),
      of_device_parts("headgate_share_memory_bytes", "share, uuid, kind",
                      "Memory in use: allocated; residual (contexts, loaded code: measured, no call tells of it); "
                      "draining (outlives "
                      "its process).",
                      memory_parts),
      of_device("headgate_share_host_memory_limit_bytes", "Host memory that may stand in for the GPU's.",
                &ShareDevice::host_limit_bytes),
      of_device("headgate_share_host_memory_used_bytes", "Host memory that stands in for the GPU's.",
                &ShareDevice::host_used_bytes),
      of_device_parts(
          "headgate_share_allocation_denied_total", "share, uuid, reason",
          "Allocations refused; reason is limit (the share's own), device_full (the driver had no memory, though the "
          "share had room) or policy (the share was being drained).",
          refusal_parts),
  };
}

std::vector<MetricRow> share_compute_rows() {
  return {
      of_device("headgate_share_compute_guarantee_ratio", "Part of the GPU's time that it has whatever others want.",
                &ShareDevice::compute_guarantee_ratio),
      of_device("headgate_share_compute_ceiling_ratio", "The most of the GPU's time that it may have; 1 is no limit.",
                &ShareDevice::compute_ceiling_ratio),
      of_device("headgate_share_weight", "Its part of what is left, against the weights of others.",
                &ShareDevice::weight),
      of_device("headgate_share_gpu_seconds_total",
                "GPU time held; its rate is the share's part of the GPU. Not there where its work is not measured.",
                [](const ShareDevice& d) { return d.metered ? number(d.held_ns, kNano) : std::nullopt; }),
      of_device("headgate_share_gpu_seconds_estimated_total",
                "The part of the GPU time held that was estimated, not measured; not there as the time held.",
                [](const ShareDevice& d) { return d.metered ? number(d.estimated_ns, kNano) : std::nullopt; }),
      of_device("headgate_share_short_seconds_total",
                "GPU time that the promise owed the share while it wanted the GPU, and that it did not have.",
                [](const ShareDevice& d) { return d.short_ratio ? number(d.short_ns, kNano) : std::nullopt; }),
      of_device("headgate_share_short_ratio",
                "The same over the last 10 s, as part of the GPU; 0 where the promise was kept.",
                &ShareDevice::short_ratio),
      of_device("headgate_share_wanted_ratio",
                "Part of the last 10 s in which it had work for the GPU or waited for it.", &ShareDevice::wanted_ratio),
      of_device("headgate_share_throttled_seconds_total",
                "Time that launching threads waited at the gate, summed over threads; of those that still wait too.",
                &ShareDevice::throttled_ns, kNano),
      of_device("headgate_share_throttled_launches_total", "Launches that waited at the gate.",
                &ShareDevice::throttled_launches),
      of_device_parts(
          "headgate_share_waited_seconds_total", "share, uuid, cause",
          "The same, by what was waited for: ceiling (its own limit), turn (other shares had the GPU), work (its own, "
          "sent before), pause.",
          [](const ShareDevice& d) -> Parts {
            return {{"ceiling", d.waited_ceiling_ns},
                    {"turn", d.waited_turn_ns},
                    {"work", d.waited_work_ns},
                    {"pause", d.waited_pause_ns}};
          },
          kNano),
      of_device("headgate_share_launches_in_debt_total",
                "Launches let through a shut gate so that nothing waits for ever; charged as debt.",
                &ShareDevice::passed_in_debt),
      {{"headgate_share_launch_delay_seconds", kHistogram, "share, uuid",
        "How long launches that were metered waited at the gate; those that did not wait are in the first bucket."},
       collect_launch_delays},
      {{"headgate_share_energy_joules_total", kCounter, "share, uuid, method",
        "Estimate: the GPU's energy in the time that the share held it; method is exclusive if no other share worked "
        "there meanwhile, model where it was split by GPU time."},
       [](const MetricInput& in, Samples& out) {
         for (const auto& [key, joules] : in.own.sums.share_energy) {
           const auto& [share, uuid, method] = key;
           if (std::ranges::find(in.snapshot.shares, share, &Share::name) != in.snapshot.shares.end())
             out.push_back({{{"share", share}, {"uuid", uuid}, {"method", method}}, joules});
         }
       }},
      of_device_parts("headgate_share_hook_errors_total", "share, uuid, api",
                      "Contexts whose GPU time could not be measured for 100 ms, by the driver's call that failed.",
                      [](const ShareDevice& d) {
                        Parts parts;
                        for (const auto& [api, count] : d.hook_errors) parts.emplace_back(api, count);
                        return parts;
                      }),
  };
}

// The figures of a broken share are not known.
std::optional<std::uint64_t> unless_broken(const Share& share, std::uint64_t figure) {
  return share.state == "broken" ? std::nullopt : std::optional(figure);
}

std::vector<MetricRow> share_state_rows() {
  return {
      of_share("headgate_share_processes", "Processes that run in it.", &Share::processes),
      of_share("headgate_share_frozen_processes", "Of these, those that are idle and have their memory on the host.",
               &Share::frozen_processes),
      of_share("headgate_share_freezes_total", "How often memory of its idle processes went to the host.",
               [](const Share& s) { return unless_broken(s, s.freezes); }),
      of_share("headgate_share_thaws_total", "How often it came back, by a call of theirs.",
               [](const Share& s) { return unless_broken(s, s.thaws); }),
      {{"headgate_share_last_activity_timestamp_seconds", kGauge, "share",
        "When it last used a GPU, or waited for one, as far as this daemon has seen."},
       [](const MetricInput& in, Samples& out) {
         for (const Share& s : in.snapshot.shares)
           if (s.state != "broken")
             out.push_back({{{"share", s.name}}, *number(saturating_sub(in.snapshot.taken_unix_ns, s.idle_ns), kNano)});
       }},
      of_share("headgate_share_ttl_seconds", "Time until it ends by itself; not there where it does not.",
               &Share::ttl_ns, kNano),
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
