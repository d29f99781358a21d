#include "install/paths.hpp"

#include <limits.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "guest/ledger/pages.hpp"

namespace headgate::install {
namespace {

std::string parent(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

std::string resolved(const std::string& path) {
  std::array<char, PATH_MAX> buffer{};
  return ::realpath(path.c_str(), buffer.data()) != nullptr ? buffer.data() : path;
}

// Returns the file from ../lib or ../lib/headgate relative to the command; the error lists both candidates.
Result<std::string> beside(const std::string& what, const std::string& file) {
  const std::string prefix = parent(parent(own_executable()));
  const std::vector<std::string> candidates = {prefix + "/lib/" + file, prefix + "/lib/headgate/" + file};
  for (const auto& candidate : candidates)
    if (exists(candidate)) return resolved(candidate);
  return fail(ErrorCode::failed, what + " is missing: neither " + candidates[0] + " nor " + candidates[1] + " exists",
              "build it (dev/build), or install headgate whole (cmake --install)");
}

}  // namespace

std::string own_executable() {
  std::array<char, PATH_MAX> buffer{};
  const ssize_t length = ::readlink("/proc/self/exe", buffer.data(), buffer.size() - 1);
  if (length > 0) return {buffer.data(), static_cast<std::size_t>(length)};
  const auto* told = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  return resolved(told != nullptr ? told : "headgate");
}

Result<std::string> limiter_library() { return beside("the limiter", "libheadgate.so"); }
Result<std::string> path_library() { return beside("the path library", "libheadgate-path.so"); }
Result<std::string> private_program(const std::string& name) { return beside("the program " + name, name); }

Result<std::string> daemon_program() {
  const std::string prefix = parent(parent(own_executable()));
  for (const char* folder : {"/bin/", "/sbin/"})
    if (exists(prefix + folder + "headgated")) return resolved(prefix + folder + "headgated");
  return fail(ErrorCode::failed, "headgated is missing: it is neither in " + prefix + "/bin nor in " + prefix + "/sbin",
              "build it (dev/build), or install headgate whole (cmake --install)");
}

Result<std::string> runtime_program() {
  const std::string program = parent(own_executable()) + "/headgate-oci";
  if (exists(program)) return resolved(program);
  return fail(ErrorCode::failed, "there is no " + program,
              "build it (dev/build), or install headgate whole (cmake --install)");
}

Result<std::string> simulator_libraries() { return parent(TRY(beside("the simulator", "sim/libnvidia-ml.so.1"))); }

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

Result<std::string> runtime_dir() {
  std::array<char, PATH_MAX> buffer{};
  if (!ledger::runtime_directory(std::getenv("HEADGATE_RUNTIME_DIR"), std::getenv("XDG_RUNTIME_DIR"), buffer.data(),
                                 buffer.size()))
    return fail(ErrorCode::usage, "the runtime directory's path is too long",
                "set HEADGATE_RUNTIME_DIR to a shorter one");
  if (buffer[0] != '/')
    return fail(ErrorCode::usage, "the runtime directory '" + std::string(buffer.data()) + "' is a relative path",
                "set HEADGATE_RUNTIME_DIR (or XDG_RUNTIME_DIR) to one that begins with /");
  return std::string(buffer.data());
}

Result<std::string> sim_directory(const std::string& profile) {
  const std::string given = environment("HEADGATE_SIM_DIR");
  if (!given.empty() && profile.empty()) return given;
  std::string name = profile.empty() ? "default" : profile.substr(profile.rfind('/') + 1);
  if (name.ends_with(".toml")) name.resize(name.size() - 5);
  return TRY(runtime_dir()) + "/sim/" + name;
}

Result<void> make_private_directory(const std::string& path) {
  for (std::size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    const std::string part = path.substr(0, at);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST)
      return fail_errno("cannot make the directory " + part, errno,
                        "set HEADGATE_RUNTIME_DIR or XDG_RUNTIME_DIR to a directory that you may write");
    if (at == std::string::npos) return {};
  }
}

}  // namespace headgate::install
