#include "daemon/places.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <thread>

#include "base/owned_file.hpp"
#include "base/user_name.hpp"
#include "install/paths.hpp"

namespace headgate::daemon {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRootsPlace = "/run/headgate";

// systemd separates several directories by ':'; ours is the first.
std::string from_systemd(const char* name) {
  const std::string all = install::environment(name);
  return all.substr(0, all.find(':'));
}

Result<std::string> runtime_directory() {
  if (install::environment("HEADGATE_RUNTIME_DIR").empty()) {
    if (const auto given = from_systemd("RUNTIME_DIRECTORY"); !given.empty()) return given;
    if (::geteuid() == 0 && install::environment("XDG_RUNTIME_DIR").empty()) return kRootsPlace;
  }
  return install::runtime_dir();
}

std::string state_directory(const std::string& asked, const std::string& runtime_dir) {
  if (!asked.empty()) return asked;
  if (const auto given = from_systemd("STATE_DIRECTORY"); !given.empty()) return given;
  if (::geteuid() == 0 && install::environment("HEADGATE_RUNTIME_DIR").empty()) return "/var/lib/headgate";
  if (const auto home = install::environment("XDG_STATE_HOME"); !home.empty()) return home + "/headgate";
  return runtime_dir + "/state";
}

Result<void> set_mode(const std::string& path, mode_t mode) {
  struct stat facts{};
  if (::stat(path.c_str(), &facts) == 0 && facts.st_uid == ::geteuid() && (facts.st_mode & 07777) != mode &&
      ::chmod(path.c_str(), mode) != 0)
    return fail_errno("cannot set the permissions of " + path, errno);
  return {};
}

Result<void> make_directory(const std::string& path, mode_t mode) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return fail_errno("cannot make the directory " + path, error.value());
  return set_mode(path, mode);
}

// Other users' tenants, and the control group, pass through root's runtime directory. One that an operator has made
// elsewhere keeps its permissions.
Result<void> make_runtime_directory(const std::string& path) {
  if (::geteuid() != 0) return install::make_private_directory(path);
  std::error_code error;
  const bool made = fs::create_directories(path, error);
  if (error)
    return fail_errno("cannot make the directory " + path, error.value(),
                      "set HEADGATE_RUNTIME_DIR to a directory that can be written");
  return made || path == kRootsPlace ? set_mode(path, 0755) : Result<void>{};
}

// A directory that an operator has named and made keeps its permissions too: it may hold more than our files.
Result<void> make_state_directory(const std::string& path, bool named) {
  std::error_code error;
  if (named && fs::is_directory(path, error)) return {};
  return make_directory(path, 0700);
}

Result<void> make_control_directory(const std::string& path, const Callers& callers) {
  TRY(make_directory(path, callers.all ? 0755 : 0750));
  if (callers.group && ::chown(path.c_str(), static_cast<uid_t>(-1), *callers.group) != 0)
    return fail_errno("cannot give " + path + " to its group", errno);
  return {};
}

std::string control_directory(const std::string& runtime_dir) { return runtime_dir + "/control"; }

// Returns where they lie, and makes nothing.
Result<Places> plan(const std::string& socket, const std::string& state) {
  Places places;
  places.runtime_dir = TRY(runtime_directory());
  if (!places.runtime_dir.starts_with('/'))
    return fail(ErrorCode::usage, "the runtime directory '" + places.runtime_dir + "' is no absolute path",
                "set HEADGATE_RUNTIME_DIR to one that begins with /");
  places.socket = socket.empty() ? control_directory(places.runtime_dir) + "/headgate.sock" : socket;
  // A path that the operator chose is theirs to prepare: its directories decide which users may reach it.
  if (const fs::path parent = fs::path(socket).parent_path(); !socket.empty() && !parent.empty()) {
    std::error_code ignored;
    if (!fs::is_directory(parent, ignored))
      return fail(ErrorCode::usage, "--socket " + socket + ": there is no directory " + parent.string(),
                  "make it first: mkdir -p -m 0750 " + parent.string());
  }
  const std::string state_dir = state_directory(state, places.runtime_dir);
  places.state_file = state_dir + "/headgate.db";
  places.events_file = state_dir + "/events.db";
  places.leases_file = state_dir + "/power-leases.json";
  return places;
}

std::string directory_of(const std::string& file) { return fs::path(file).parent_path(); }

// Checks by trying whether files and directories can be made in it, or where it would be made: permissions alone do not
// show it in /proc.
Result<void> can_be_used(const std::string& path) {
  std::error_code error;
  fs::path there = path;
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  std::string probe = (there / ".headgated-check-XXXXXX").string();
  if (::mkdtemp(probe.data()) == nullptr)
    return fail_errno("nothing can be made in " + there.string() + ", and " + path + " is needed", errno,
                      "give headgated a directory that it can write: HEADGATE_RUNTIME_DIR, --state, --socket");
  ::rmdir(probe.c_str());
  return {};
}

// Checks what lies at the daemon's paths: a start refuses another kind of file with the same error.
Result<void> is_ours(const Places& places) {
  struct stat facts{};
  if (::lstat(places.socket.c_str(), &facts) == 0 && !S_ISSOCK(facts.st_mode))
    return fail(ErrorCode::usage, places.socket + " exists and is no socket", "name another path, or remove that file");
  // Opening it for writing would make or update it: the head of the file shows enough.
  constexpr std::string_view kHead = "SQLite format 3";
  std::ifstream file(places.state_file, std::ios::binary);
  std::string head(kHead.size(), '\0');
  if (file.read(head.data(), static_cast<std::streamsize>(head.size())) && head != kHead)
    return fail(ErrorCode::failed, "the database " + places.state_file + ": file is not a database",
                "move the file away to start with no shares stored, or restore a backup");
  return {};
}

}  // namespace

void take_all_descriptors() {
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return;
  descriptors.rlim_cur = std::min<rlim_t>(descriptors.rlim_max, 65'536);
  ::setrlimit(RLIMIT_NOFILE, &descriptors);
}

Result<void> check_places(const std::string& socket, const std::string& state) {
  const Places places = TRY(plan(socket, state));
  for (const std::string& path : {places.runtime_dir, directory_of(places.socket), directory_of(places.state_file)}) {
    if (path.empty()) continue;  // a socket in the working directory
    TRY(can_be_used(path));
  }
  return is_ours(places);
}

Result<Places> find_places(const std::string& socket, const std::string& state, const Callers& callers) {
  Places places = TRY(plan(socket, state));
  TRY(make_runtime_directory(places.runtime_dir));
  if (socket.empty()) {
    TRY(make_control_directory(control_directory(places.runtime_dir), callers));
  }
  TRY(make_state_directory(directory_of(places.state_file), !state.empty()));
  return places;
}

Result<void> keep_control_directory(const Places& places, const Callers& callers) {
  const std::string ours = control_directory(places.runtime_dir);
  struct stat facts{};
  if (directory_of(places.socket) != ours || ::lstat(ours.c_str(), &facts) == 0 || errno != ENOENT) return {};
  return make_control_directory(ours, callers);
}

namespace {

Result<UniqueFd> hold_directory(const std::string& path) {
  UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return fail_errno("cannot open " + path, errno);
  // An operator may have put a link there; another user may not.
  struct stat facts{};
  if (::lstat(path.c_str(), &facts) == 0 && S_ISLNK(facts.st_mode) && facts.st_uid != 0 && facts.st_uid != ::geteuid())
    return fail(ErrorCode::denied, path + ": it is a symbolic link of " + user_name(facts.st_uid),
                "remove it, and name the directory itself");
  if (::fstat(directory.get(), &facts) == 0) TRY(check_owned(path, facts));
  // A tool that a killed headgated was starting holds the lock until its exec.
  constexpr auto kPatience = std::chrono::seconds(1);
  const auto until = std::chrono::steady_clock::now() + kPatience;
  do {
    // A file system without locks must not keep the daemon from starting.
    if (::flock(directory.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return directory;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  } while (std::chrono::steady_clock::now() < until);
  return fail(ErrorCode::denied, "another headgated works in " + path,
              "end it first, or give this one other directories: HEADGATE_RUNTIME_DIR and --state");
}

}  // namespace

Result<PlacesHeld> hold(const Places& places) {
  PlacesHeld held;
  held.runtime = TRY(hold_directory(places.runtime_dir));
  const std::string state = directory_of(places.state_file);
  if (state != places.runtime_dir) held.state = TRY(hold_directory(state));
  return held;
}

}  // namespace headgate::daemon
