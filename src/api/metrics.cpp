#include "api/metrics.hpp"

#include <algorithm>
#include <concepts>
#include <iterator>

#include "api/metric_rows.hpp"
#include "base/saturating_math.hpp"

namespace headgate::api {
namespace {

using mps::GroupView;
using snapshot::Snapshot;

// A row with one sample. `of`: a member, or a function, of Node, DaemonFigures, Tally::Sums or Standing.
template <typename Of>
MetricRow single(std::string_view name, std::string_view help, Of of, double unit = 1) {
  return {{name, kind_of(name), "", help}, [of, unit](const MetricInput& in, Samples& out) {
            Value found;
            if constexpr (std::invocable<Of, const snapshot::Node&>)
              found = number(std::invoke(of, in.snapshot.node), unit);
            else if constexpr (std::invocable<Of, const DaemonFigures&>) found = number(std::invoke(of, in.own), unit);
            else if constexpr (std::invocable<Of, const Tally::Sums&>)
              found = number(std::invoke(of, in.own.sums), unit);
            else if (const auto& now = in.own.sums.standing) found = number(std::invoke(of, *now), unit);
            if (found) out.push_back({{}, *found});
          }};
}
MetricRow times(std::string_view name, std::string_view help, std::optional<Durations> DaemonFigures::* which) {
  return {{name, kHistogram, "", help}, [which](const MetricInput& in, Samples& out) {
            if (const auto& found = in.own.*which) out.push_back({{}, found->sum_seconds, found->buckets});
          }};
}

MetricRow directories(std::string_view name, std::string_view help, std::uint64_t DirectoryRoom::* which) {
  return {{name, kGauge, "directory", help}, [which](const MetricInput& in, Samples& out) {
            if (!in.own.sums.standing) return;
            for (const DirectoryRoom& one : in.own.sums.standing->directories)
              out.push_back({{{"directory", one.name}}, static_cast<double>(one.*which)});
          }};
}

std::vector<MetricRow> node_rows() {
  return {
      {{"headgate_build_info", kGauge, "version", "Always 1; what runs here."},
       [](const MetricInput& in, Samples& out) { out.push_back({{{"version", in.snapshot.node.version}}, 1}); }},
      {{"headgate_node_info", kGauge, "node, driver, level, simulated",
        "Always 1; level is the weakest by which a share of the node is held."},
       [](const MetricInput& in, Samples& out) {
         const auto& node = in.snapshot.node;
         out.push_back({{{"node", node.name},
                         {"driver", node.driver_version},
                         {"level", node.level},
                         {"simulated", yes_no(node.simulated)}},
                        1});
       }},
      single("headgate_node_shares", "Shares on the node.", &snapshot::Node::shares),
      single("headgate_node_unattended_processes", "Processes that use a GPU outside every share, but for the exempt.",
             &snapshot::Node::unattended_processes),
      single("headgate_node_reserve_bytes", "Memory of each GPU that is never committed.",
             &snapshot::Node::reserve_bytes),
      single("headgate_node_driver_released",
             "1 while the driver's library is closed, on request or because it does not answer: figures of GPUs are "
             "missing meanwhile.",
             &snapshot::Node::nvml_released),
  };
}

std::string owner_text(const GroupView& group) {
  return group.key.is_for_all() ? "all" : std::to_string(group.key.uid);
}

// `of`: a member of GroupView; of a list its length counts.
template <typename Of>
MetricRow of_mps_group(std::string_view name, std::string_view help, Of of) {
  return {{name, kind_of(name), "uuid, owner_uid", help}, [of](const MetricInput& in, Samples& out) {
            for (const GroupView& group : in.own.sums.mps) {
              const auto& found = group.*of;
              double figure = 0;
              if constexpr (requires { found.size(); }) figure = static_cast<double>(found.size());
              else figure = static_cast<double>(found);
              out.push_back({{{"uuid", group.key.uuid}, {"owner_uid", owner_text(group)}}, figure});
            }
          }};
}

std::vector<MetricRow> mps_rows() {
  return {
      {{"headgate_mps_group_info", kGauge, "uuid, owner_uid, state",
        "Always 1; an MPS control daemon of headgate's, and the state of its server: active, fault, initializing, "
        "wedged, "
        "or unknown."},
       [](const MetricInput& in, Samples& out) {
         for (const GroupView& group : in.own.sums.mps)
           out.push_back({{{"uuid", group.key.uuid},
                           {"owner_uid", owner_text(group)},
                           {"state", std::string(mps::word_of(group.state))}},
                          1});
       }},
      of_mps_group("headgate_mps_group_tenants", "Programs and runs that keep it.", &GroupView::holders),
      of_mps_group("headgate_mps_group_clients", "Clients of its servers, as the tool last said.", &GroupView::clients),
      of_mps_group("headgate_mps_group_servers", "Its servers, as the tool last said.", &GroupView::servers),
      of_mps_group("headgate_mps_group_restarts_total",
                   "How often it was started again after a fault, an end or a hang.", &GroupView::restarts),
  };
}

std::vector<MetricRow> daemon_rows() {
  return {
      single("headgate_daemon_clients", "Connections to the control socket and the TCP address.",
             &Tally::Sums::clients),
      {{"headgate_daemon_events_total", kCounter, "kind", "Events since the daemon started, by kind."},
       [](const MetricInput& in, Samples& out) {
         for (const auto& [kind, count] : in.own.sums.events)
           out.push_back({{{"kind", kind}}, static_cast<double>(count)});
       }},
      single("headgate_daemon_ready", "1 if the daemon can do what it is for, as /readyz says.", &Standing::ready),
      single("headgate_daemon_events_saved", "1 if events are written to the disk; 0 if they are in memory only.",
             &Standing::events_saved),
      single("headgate_daemon_events_kept", "Events that the daemon still knows, on the disk or in memory.",
             &Standing::events_kept),
      directories("headgate_daemon_directory_free_bytes",
                  "Room that is left in the file system of a directory: runtime (shares' pages), state (database).",
                  &DirectoryRoom::free_bytes),
      directories("headgate_daemon_directory_size_bytes", "The size of that file system.", &DirectoryRoom::size_bytes),
      {{"headgate_daemon_recoveries_total", kCounter, "kind",
        "Shares that the daemon found, at its start or when their pages went or came back: adopted as they were, "
        "restored from its store, or broken and left so."},
       [](const MetricInput& in, Samples& out) {
         for (const char* kind : {"adopted", "restored", "broken"}) {
           const auto found = in.own.sums.events.find(std::string("share.") + kind);
           out.push_back(
               {{{"kind", kind}}, found == in.own.sums.events.end() ? 0.0 : static_cast<double>(found->second)});
         }
       }},
      single(
          "headgate_daemon_sample_age_seconds",
          "Time since the driver last answered; what this page says of GPUs is of then.",
          [](const DaemonFigures& own) { return saturating_sub(own.now_ns, own.driver_answered_ns); }, kNano),
      single("headgate_daemon_scrape_duration_seconds", "What the page before this one took to make.",
             &Tally::Sums::scrape_seconds),
      single("headgate_daemon_start_time_seconds", "When the daemon started, since the epoch.",
             &snapshot::Node::started_unix_ns, kNano),
      single("headgate_daemon_cpu_seconds_total", "Processor time that the daemon has used.",
             &DaemonFigures::cpu_seconds),
      single("headgate_daemon_resident_memory_bytes", "The daemon's resident memory.", &DaemonFigures::resident_bytes),
      single("headgate_daemon_open_files", "Descriptors that the daemon holds.", &DaemonFigures::open_files),
      times("headgate_arbiter_decision_seconds",
            "How long each time took that the arbiter looked at the shares, decided and wrote their gates.",
            &DaemonFigures::decisions),
      times("headgate_arbiter_wake_seconds", "How long it then took to wake the processes that a decision lets in.",
            &DaemonFigures::wakes),
      single("headgate_arbiter_gate_changes_total", "Gates that it wrote again.", &DaemonFigures::gate_changes),
      single("headgate_arbiter_doorbell_rings_total", "Rings of limiters that it heard.",
             &DaemonFigures::doorbell_rings),
  };
}

const std::vector<MetricRow>& rows() {
  static const std::vector<MetricRow> all = [] {
    std::vector<MetricRow> table;
    for (auto* part : {node_rows, gpu_rows, share_rows, mps_rows, daemon_rows})
      std::ranges::move(part(), std::back_inserter(table));
    return table;
  }();
  return all;
}

}  // namespace

std::vector<Metric> metrics() {
  std::vector<Metric> all;
  for (const MetricRow& row : rows()) all.push_back(row.metric);
  return all;
}

std::vector<Family> families_of(const Snapshot& snapshot, const DaemonFigures& own) {
  std::vector<Family> families;
  for (const auto& [metric, collect] : rows()) {
    families.push_back({std::string(metric.name), std::string(metric.help), metric.kind, {}});
    collect({snapshot, own}, families.back().samples);
  }
  return families;
}

std::string metrics_page(const Snapshot& snapshot, const DaemonFigures& own) {
  return page(families_of(snapshot, own));
}

}  // namespace headgate::api
