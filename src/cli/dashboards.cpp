#include "cli/dashboards.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/unique_fd.hpp"
#include "base/write_all.hpp"

namespace headgate::cli {
namespace {

namespace fs = std::filesystem;

// Beside its place first: whoever reads the old one meanwhile finds it whole.
Result<void> put(const std::string& path, std::string_view content) {
  const std::string next = path + ".new";
  const UniqueFd file(::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file) return fail_errno("cannot make '" + harmless(next) + "'", errno, "name a directory where you may write");
  if (const int error = write_all(file.get(), content); error != 0) {
    ::unlink(next.c_str());
    return fail_errno("cannot write '" + harmless(next) + "'", error, "name a directory on a disk with more room");
  }
  if (::rename(next.c_str(), path.c_str()) == 0) return {};
  const int error = errno;
  ::unlink(next.c_str());
  return fail_errno("cannot replace '" + harmless(path) + "'", error, "move it away");
}

}  // namespace

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
    if (auto done = put(paths[i], dashboard_files()[i].content); !done) return std::unexpected(done.error());
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
