// A snapshot of the node as figures for Prometheus. Pure. What each means: docs/metrics.md, which a test holds to this
// code.
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

// All that the page may hold, in its order.
[[nodiscard]] std::vector<Metric> metrics();

// The figures of a snapshot, in that order, for the page or for lines (lines.hpp).
[[nodiscard]] std::vector<Family> families_of(const snapshot::Snapshot& snapshot, const DaemonFigures& own);

// The page of /metrics. A figure that is not known is not there: never a zero in its place.
[[nodiscard]] std::string metrics_page(const snapshot::Snapshot& snapshot, const DaemonFigures& own);

// The fields that boards made for NVIDIA's exporter (DCGM) ask for, under its names, units and labels: one series a
// GPU. For hosts on which that exporter does not run.
[[nodiscard]] std::string dcgm_page(const snapshot::Snapshot& snapshot);

}  // namespace headgate::api
