// Figures and events one a line, for collectors that are no Prometheus: InfluxDB's line protocol and JSON. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/page.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::api {

enum class LineForm { influx, json };

// "influx", "json"; empty for any other word.
[[nodiscard]] std::optional<LineForm> line_form(std::string_view word);

// What the page of /metrics shows, as one line for each set of labels: "headgate_gpu_power_watts{uuid=...}" becomes the
// field power_watts of headgate_gpu with the tag uuid. Every line carries the tag `node` too, and `unix_ns`. Values of
// tags are cleaned as the page's labels are; a figure that is no finite number is left out.
[[nodiscard]] std::string metric_lines(const std::vector<Family>& families, const std::string& node,
                                       std::uint64_t unix_ns, LineForm form);

// headgate_event: tags node, kind, severity, share, uuid; fields sequence, pid, uid, text. At the event's own time.
[[nodiscard]] std::string event_line(const snapshot::Event& event, const std::string& node, LineForm form);

}  // namespace headgate::api
