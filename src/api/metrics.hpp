// Formats a snapshot of the node as Prometheus metrics. Pure. docs/metrics.md describes each; a test compares it with
// this code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/figures.hpp"
#include "api/page.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::api {

struct Metric {
  std::string_view name;
  Kind kind;
  std::string_view labels;  // "share, uuid"
  std::string_view help;    // one line
};

// Lists every metric that the page can contain, in page order.
[[nodiscard]] std::vector<Metric> metrics();

// Returns a snapshot's metrics in that order, for the page or for line formats (page.hpp).
[[nodiscard]] std::vector<Family> families_of(const snapshot::Snapshot& snapshot, const DaemonFigures& own);

// Formats the page of /metrics. Unknown values are left out, never shown as 0.
[[nodiscard]] std::string metrics_page(const snapshot::Snapshot& snapshot, const DaemonFigures& own);

// Formats the fields that dashboards made for NVIDIA's DCGM exporter query, with its names, units and labels: one
// series per GPU. For hosts without that exporter.
[[nodiscard]] std::string dcgm_page(const snapshot::Snapshot& snapshot);

}  // namespace headgate::api
