#include "apps/headgated/places.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "cli/paths.hpp"

namespace headgate::daemon {
namespace {

// systemd names several directories with ':' between them; ours is the first.
std::string from_systemd(const char* name) {
  const std::string all = cli::environment(name);
  return all.substr(0, all.find(':'));
}

Result<std::string> runtime_directory() {
  if (cli::environment("HEADGATE_RUNTIME_DIR").empty()) {
    if (const auto given = from_systemd("RUNTIME_DIRECTORY"); !given.empty()) return given;
    if (::geteuid() == 0 && cli::environment("XDG_RUNTIME_DIR").empty()) return "/run/headgate";
  }
  return cli::runtime_dir();
}

std::string state_directory(const std::string& asked, const std::string& runtime_dir) {
  if (!asked.empty()) return asked;
  if (const auto given = from_systemd("STATE_DIRECTORY"); !given.empty()) return given;
  if (::geteuid() == 0 && cli::environment("HEADGATE_RUNTIME_DIR").empty()) return "/var/lib/headgate";
  if (const auto home = cli::environment("XDG_STATE_HOME"); !home.empty()) return home + "/headgate";
  return runtime_dir + "/state";
}

Result<void> make_directory(const std::string& path, mode_t mode) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return fail_errno("cannot make the directory " + path, error.value());
  struct stat facts{};
  if (::stat(path.c_str(), &facts) == 0 && facts.st_uid == ::geteuid() && (facts.st_mode & 07777) != mode &&
      ::chmod(path.c_str(), mode) != 0)
    return fail_errno("cannot set the permissions of " + path, errno);
  return {};
}

}  // namespace

Result<Places> find_places(const std::string& socket, const std::string& state) {
  Places places;
  places.runtime_dir = TRY(runtime_directory());
  if (!places.runtime_dir.starts_with('/'))
    return fail(ErrorCode::usage, "the runtime directory '" + places.runtime_dir + "' is no absolute path",
                "set HEADGATE_RUNTIME_DIR to one that begins with /");
  if (auto made = cli::make_private_directory(places.runtime_dir); !made) return std::unexpected(made.error());
  places.socket = socket.empty() ? places.runtime_dir + "/control/headgate.sock" : socket;
  // Who may connect is decided by the socket's own permissions.
  if (auto made = make_directory(std::filesystem::path(places.socket).parent_path(), 0755); socket.empty() && !made)
    return std::unexpected(made.error());
  const std::string state_dir = state_directory(state, places.runtime_dir);
  if (auto made = make_directory(state_dir, 0700); !made) return std::unexpected(made.error());
  places.state_file = state_dir + "/headgate.db";
  return places;
}

}  // namespace headgate::daemon
