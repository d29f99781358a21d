// The Grafana board and the Prometheus rules that belong to this version: part of the command, so that they are at hand
// wherever it is.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "cli/term/output.hpp"

namespace headgate::cli {

struct DashboardFile {
  std::string_view name;  // of the file that it becomes
  std::string_view use;   // what to do with it
  std::string_view content;
};
[[nodiscard]] std::span<const DashboardFile> dashboard_files();

// Writes them into a directory, which is made where it is not there. The paths written. Errors: usage (there are such
// files, and not `force`: nothing is written then), denied, no_capacity, failed.
[[nodiscard]] Result<std::vector<std::string>> export_dashboards(const std::string& directory, bool force);

// `headgate dashboards export`: the exit status.
[[nodiscard]] int dashboards(const std::string& directory, bool force, const Voice& voice);

}  // namespace headgate::cli
