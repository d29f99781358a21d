// Installs the limiter for containers, in a directory that is mounted into them or in an image's root. An ld.so.preload
// makes glibc's loader load it into every program there, whatever the environment.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "base/unique_fd.hpp"
#include "base/whole_file.hpp"
#include "cli/commands.hpp"
#include "cli/share/daemon.hpp"
#include "install/paths.hpp"
#include "oci/preload_list.hpp"

namespace headgate::cli {
namespace {

struct LimiterPlace {
  std::string directory;    // of the libraries and, without a root, of ld.so.preload; in a root: the path inside it
  std::string at;           // the directory's path in containers; "" if the same. Not with a root
  std::string root;         // of an image or a machine: its etc/ld.so.preload is changed; "" for none
  bool whole_host = false;  // allow this machine's own root
};

struct LimiterFiles {
  std::vector<std::string> files;   // written or removed
  std::vector<std::string> mounts;  // FROM:TO:ro, for containers to be limited; only from install without a root
};

namespace fs = std::filesystem;
using oci::can_be_preloaded, oci::kLimiterFile, oci::kPathFile, oci::with_limiter, oci::without_ours;

constexpr char kList[] = "ld.so.preload";
constexpr std::size_t kLongestList = 64 * 1024, kLargestLibrary = 64 << 20;
#if defined(__aarch64__)
constexpr char kLoader[] = "lib/ld-linux-aarch64.so.1";
#else
constexpr char kLoader[] = "lib64/ld-linux-x86-64.so.2";
#endif

struct Directory {
  UniqueFd fd;  // none: missing and not to be created
  std::string shown;
};

// The directories of the libraries and the list, and the path by which programs see the libraries.
struct Opened {
  Directory libraries, list;
  std::string seen;
};

// Opens `path` below `base`, step by step. Created directories get mode 0755, because container programs may run as any
// user.
Result<UniqueFd> walk(UniqueFd base, const std::string& path, const std::string& shown, bool make, bool links) {
  for (const fs::path& step : fs::path(path).relative_path()) {
    if (step.empty() || step == ".") continue;
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (links ? 0 : O_NOFOLLOW);
    const bool made = make && ::mkdirat(base.get(), step.c_str(), 0755) == 0;
    UniqueFd next(::openat(base.get(), step.c_str(), flags));
    if (!next && errno == ENOENT && !make) return UniqueFd{};
    if (!next && errno == ENOTDIR && !links)
      return fail(ErrorCode::usage,
                  "'" + harmless(step.string()) + "' of '" + harmless(shown) + "' is no directory, or a symbolic link",
                  "links are not followed inside a root: name the directory itself");
    if (!next) return fail_errno("cannot open the directory '" + harmless(shown) + "'", errno);
    if (made && ::fchmod(next.get(), 0755) != 0)
      return fail_errno("cannot change the directory '" + harmless(shown) + "'", errno);
    base = std::move(next);
  }
  return base;
}

Result<UniqueFd> open_root(const std::string& path) {
  UniqueFd root(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root) return fail_errno("cannot open the root '" + harmless(path) + "'", errno, "name a directory");
  return root;
}

bool same_file(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

Result<UniqueFd> open_image(const LimiterPlace& place, bool make) {
  UniqueFd root = TRY(open_root(place.root));
  struct stat own{}, other{};
  ::stat("/", &own), ::fstat(root.get(), &other);
  if (same_file(own, other) && !place.whole_host)
    return fail(ErrorCode::usage, "'" + harmless(place.root) + "' is the root of this machine",
                "every program of it would load the limiter, also at boot; --whole-host says that this is meant");
  struct stat loader{};
  if (make && ::fstatat(root.get(), kLoader, &loader, AT_SYMLINK_NOFOLLOW) != 0)
    return fail(
        ErrorCode::unsupported, "'" + harmless(place.root) + "' has no /" + kLoader,
        "only glibc's loader reads /etc/ld.so.preload: programs of musl (Alpine) or of another machine would not "
        "be held");
  return root;
}

Result<void> check(const LimiterPlace& place) {
  if (place.root.empty()) {
    if (!place.whole_host) return {};
    return fail(ErrorCode::usage, "--whole-host without --root", "it goes with --root /");
  }
  if (!place.at.empty())
    return fail(ErrorCode::usage, "--at with --root", "in a root, DIR is what its programs see already");
  const fs::path path(place.directory);
  if (!path.is_absolute() || path.lexically_normal() != path)
    return fail(ErrorCode::usage, "'" + harmless(place.directory) + "' is no plain absolute path",
                "with --root, DIR is a path inside it, such as /usr/lib/headgate");
  return {};
}

Result<Opened> open_place(const LimiterPlace& place, bool make) {
  TRY(check(place));
  Opened out;
  if (place.root.empty()) {
    std::error_code error;
    out.libraries.shown = fs::absolute(place.directory, error).lexically_normal().string();
    if (error) return fail_errno("cannot find '" + harmless(place.directory) + "'", error.value());
    if (out.libraries.shown.size() > 1 && out.libraries.shown.ends_with('/')) out.libraries.shown.pop_back();
    out.seen = place.at.empty() ? out.libraries.shown : place.at;
    out.list.shown = out.libraries.shown;
  } else {
    const fs::path root(place.root);
    out.seen = place.directory;
    out.libraries.shown = (root / fs::path(place.directory).relative_path()).string();
    out.list.shown = (root / "etc").string();
  }
  if (!can_be_preloaded(out.seen))
    return fail(ErrorCode::usage, "'" + harmless(out.seen) + "' cannot stand in " + kList,
                "it takes absolute paths without blanks, ':', '#' and '$'");
  if (place.root.empty()) {
    UniqueFd root = TRY(open_root("/"));
    out.libraries.fd = TRY(walk(std::move(root), out.libraries.shown, out.libraries.shown, make, true));
    out.list.fd = UniqueFd(::fcntl(out.libraries.fd.get(), F_DUPFD_CLOEXEC, 0));
    return out;
  }
  // Open the list's directory before creating anything: a root without etc is not an image.
  UniqueFd image = TRY(open_image(place, make));
  UniqueFd again(::fcntl(image.get(), F_DUPFD_CLOEXEC, 0));
  out.list.fd = TRY(walk(std::move(image), "etc", out.list.shown, make, false));
  out.libraries.fd = TRY(walk(std::move(again), place.directory, out.libraries.shown, make, false));
  return out;
}

std::string path_in(const Directory& directory, std::string_view file) {
  return (fs::path(directory.shown) / file).string();
}

// Returns "" if there is no list.
Result<std::string> read_list(const Directory& directory) {
  const std::string shown = path_in(directory, kList);
  const UniqueFd file(::openat(directory.fd.get(), kList, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file && errno == ENOENT) return std::string{};
  struct stat facts{};
  if (!file && errno != ELOOP) return fail_errno("cannot read '" + harmless(shown) + "'", errno);
  if (!file || ::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode))
    return fail(ErrorCode::failed, "'" + harmless(shown) + "' is no plain file", "move it away");
  std::string text(kLongestList + 1, '\0');
  std::size_t size = 0;
  for (ssize_t got = 0; size < text.size(); size += static_cast<std::size_t>(got)) {
    got = ::read(file.get(), text.data() + size, text.size() - size);
    if (got < 0) return fail_errno("cannot read '" + harmless(shown) + "'", errno);
    if (got == 0) break;
  }
  if (size > kLongestList)
    return fail(ErrorCode::failed, "'" + harmless(shown) + "' has more than 64 KiB", "it is no list of libraries");
  text.resize(size);
  return text;
}

// Returns true if the file of that name in the directory is `path` itself.
bool is_itself(const Directory& directory, std::string_view name, const std::string& path) {
  struct stat here{}, there{};
  return ::fstatat(directory.fd.get(), std::string(name).c_str(), &here, 0) == 0 && ::stat(path.c_str(), &there) == 0 &&
         same_file(here, there);
}

// Returns the libraries of this installation, in the order in which they are written.
Result<std::vector<std::pair<std::string, std::string>>> own_libraries() {
  return std::vector<std::pair<std::string, std::string>>{{std::string(kPathFile), TRY(install::path_library())},
                                                          {std::string(kLimiterFile), TRY(install::limiter_library())}};
}

Result<void> write_in(const Directory& directory, const std::string& name, std::string_view text, LimiterFiles& out) {
  const std::string shown = path_in(directory, name);
  // A random suffix, because another command may be replacing the same file.
  const std::string beside = name + ".new-" + std::to_string(std::random_device{}());
  TRY(replace_whole_file(name, text,
                         {.mode = 0644, .at = directory.fd.get(), .beside = beside, .shown = harmless(shown)}));
  out.files.push_back(shown);
  return {};
}

Result<void> take_away(const Directory& directory, const std::string& name, LimiterFiles& out) {
  const std::string shown = path_in(directory, name);
  if (::unlinkat(directory.fd.get(), name.c_str(), 0) == 0) out.files.push_back(shown);
  else if (errno != ENOENT) return fail_errno("cannot remove '" + harmless(shown) + "'", errno);
  return {};
}

Result<void> name_nobody(const Directory& directory, LimiterFiles& out) {
  const std::string before = TRY(read_list(directory)), after = without_ours(before);
  if (after == before) return {};
  if (after.find_first_not_of(" \t\n") == std::string::npos) return take_away(directory, kList, out);
  return write_in(directory, kList, after, out);
}

// Creates the directory, installs the libraries, then adds the limiter to ld.so.preload once. Each file is replaced
// atomically; running programs keep the library they have. Symbolic links inside a root are not followed, because they
// may lead out of it. Errors: usage, unsupported (a root without glibc's loader), denied, no_capacity, failed;
// ld.so.preload is then unchanged.
Result<LimiterFiles> install_limiter(const LimiterPlace& place) {
  const auto libraries = TRY(own_libraries());
  const Opened opened = TRY(open_place(place, true));
  const std::string list = TRY(read_list(opened.list));
  LimiterFiles out;
  for (const auto& [name, path] : libraries) {
    if (is_itself(opened.libraries, name, path)) continue;
    const WholeFile library = TRY(read_whole_file(path, kLargestLibrary));
    TRY(write_in(opened.libraries, name, library.text, out));
  }
  TRY(write_in(opened.list, kList, with_limiter(list, (fs::path(opened.seen) / kLimiterFile).string()), out));
  if (place.root.empty())
    out.mounts = {opened.libraries.shown + ":" + opened.seen + ":ro", out.files.back() + ":/etc/" + kList + ":ro"};
  return out;
}

// Removes it from ld.so.preload first, then the libraries (not this installation's own), then the directory if empty.
// Missing parts are not an error.
Result<LimiterFiles> remove_limiter(const LimiterPlace& place) {
  const auto libraries = TRY(own_libraries());
  const Opened opened = TRY(open_place(place, false));
  LimiterFiles out;
  if (opened.list.fd) TRY(name_nobody(opened.list, out));
  if (!opened.libraries.fd) return out;
  for (const auto& [name, path] : libraries) {
    if (is_itself(opened.libraries, name, path)) continue;
    TRY(take_away(opened.libraries, name, out));
  }
  ::rmdir(opened.libraries.shown.c_str());  // fails if other files are in it, as intended
  return out;
}

// Returns the shares directory of the daemon that answers, else the default of a system service.
std::string shares_directory() {
  const auto daemon = find_daemon();
  if (daemon && *daemon && !(*daemon)->path.empty()) {
    const fs::path shares = fs::path((*daemon)->path).parent_path().parent_path() / "shares";
    std::error_code ignored;
    if (fs::is_directory(shares, ignored)) return shares.string();
  }
  return pages_beside_named_socket().value_or("/run/headgate") + "/shares";
}

Result<int> limiter_command(const Call& call, const LimiterPlace& place) {
  const bool installs = call.command == "limiter install";
  const auto done = TRY(installs ? install_limiter(place) : remove_limiter(place));
  if (call.voice.format == Format::json) {
    const nlohmann::ordered_json json = {
        {"schema", "headgate.limiter_files/v1"}, {"files", done.files}, {"mounts", done.mounts}};
    return show(pretty_json(json));
  }
  std::string text;
  for (const std::string& path : done.files) text += harmless(path) + "\n";
  if (installs) {
    text += "\nEvery program of a container is in the share NAME with (docker, podman):\n ";
    for (const std::string& mount : done.mounts) text += " -v " + harmless(mount);
    text += " -v " + harmless(shares_directory()) + "/NAME:/run/headgate/share:ro\n";
  }
  return show(text);
}

}  // namespace

Commands limiter_commands() {
  const auto add_options = [](Options& options, LimiterPlace& place) {
    options.operand("DIR", "directory for the libraries; created if absent", place.directory).required = true;
    options.text("--at", "PATH", "where containers see DIR (default: at the same path)", place.at);
    options.text("--root", "ROOT", "an image's root: DIR lies in it, and its /etc/ld.so.preload is changed",
                 place.root);
    options.flag("--whole-host", "with --root /: every program of this machine", place.whole_host);
  };
  return {parent_command(kContainers, "limiter", "put the limiter into containers and images"),
          command<LimiterPlace>(kCommands, "limiter install",
                                "put the limiter's libraries into a directory, with an ld.so.preload that loads them",
                                add_options, limiter_command, Reads::nothing),
          command<LimiterPlace>(kCommands, "limiter remove", "remove the libraries and the ld.so.preload", add_options,
                                limiter_command, Reads::nothing)};
}

}  // namespace headgate::cli
