// Metrics and events, one per line, for collectors other than Prometheus: InfluxDB line protocol and JSON. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/page.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::api {

enum class LineForm { influx, json };

// Parses "influx" or "json"; empty for any other text.
[[nodiscard]] std::optional<LineForm> line_form(std::string_view word);

// Formats the metrics of /metrics, one line per label set: "headgate_gpu_power_watts{uuid=...}" becomes field
// power_watts of headgate_gpu with tag uuid. Each line also carries the tag `node` and `unix_ns`. Tag values are
// cleaned like the page's labels; values that are not finite are left out.
[[nodiscard]] std::string metric_lines(const std::vector<Family>& families, const std::string& node,
                                       std::uint64_t unix_ns, LineForm form);

// headgate_event: tags node, kind, severity, share, uuid; fields sequence, pid, uid, text; stamped with its own time.
[[nodiscard]] std::string event_line(const snapshot::Event& event, const std::string& node, LineForm form);

}  // namespace headgate::api
