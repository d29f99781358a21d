#include "cli/support/dashboards.hpp"

#include <fcntl.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/support/replace_file.hpp"

namespace headgate::cli {
namespace fs = std::filesystem;

Result<std::vector<std::string>> export_dashboards(const std::string& directory, bool force) {
  std::vector<std::string> paths;
  for (const DashboardFile& file : dashboard_files()) {
    paths.push_back((fs::path(directory) / file.name).string());
    std::error_code ignored;
    if (!force && fs::exists(fs::symlink_status(paths.back(), ignored)))
      return fail(ErrorCode::usage, "'" + harmless(paths.back()) + "' exists already",
                  "--force replaces it; or name another directory");
  }
  std::error_code error;
  fs::create_directories(directory, error);
  if (error)
    return fail_errno("cannot make the directory '" + harmless(directory) + "'", error.value(),
                      "name a directory where you may write");
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (auto done = replace_file(AT_FDCWD, paths[i], dashboard_files()[i].content, 0644, paths[i]); !done)
      return std::unexpected(done.error());
  }
  return paths;
}

int dashboards(const std::string& directory, bool force, const Voice& voice) {
  const auto paths = export_dashboards(directory, force);
  if (!paths) {
    complain(paths.error(), voice);
    return exit_status(paths.error().code);
  }
  std::string text;
  if (voice.format == Format::json) {
    const nlohmann::ordered_json json = {{"schema", "headgate.dashboards/v1"}, {"files", *paths}};
    text = json.dump(2, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
  } else {
    for (const std::string& path : *paths) text += harmless(path) + "\n";
  }
  if (voice.talk) {
    for (const DashboardFile& file : dashboard_files()) say(std::string(file.name) + "  " + std::string(file.use));
  }
  return print(text) ? 0 : exit_status(ErrorCode::failed);
}

}  // namespace headgate::cli
