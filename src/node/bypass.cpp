#include "node/bypass.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>
#include <vector>

#include "base/elf.hpp"
#include "base/joined.hpp"
#include "base/now.hpp"
#include "base/unique_fd.hpp"
#include "identity/process.hpp"
#include "tenancy/share.hpp"

namespace headgate::node {
namespace {

// Bounds the effort for all files of one process: it chose them, their number, their sizes and their contents.
struct Effort {
  std::uint64_t bytes = 256u << 20, symbols = 4u << 20;
  // Time of the calling thread: other load on the machine takes nothing of it.
  std::chrono::nanoseconds until = thread_time() + std::chrono::seconds(2);
  bool spent = false;

  // Takes from the budget; once that is spent, always returns false.
  bool take(std::uint64_t more_bytes, std::uint64_t more_symbols) {
    spent = spent || more_bytes > bytes || more_symbols > symbols || thread_time() > until;
    if (spent) return false;
    bytes -= more_bytes;
    symbols -= more_symbols;
    return true;
  }
};

// Opens only a regular file. The name of a mapped file may now be that of any device, and opening one can have an
// effect: it starts a watchdog.
UniqueFd open_regular(const std::string& path) {
  const UniqueFd named(::open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat facts{};
  if (!named || ::fstat(named.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return {};
  const std::string itself = "/proc/self/fd/" + std::to_string(named.get());
  return UniqueFd(::open(itself.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

// Returns whether its table of dynamic symbols defines that function. False once `effort` is spent.
bool exports(const UniqueFd& file, const std::string& function, Effort& effort) {
  bool found = false;
  each_elf_symbol(
      elf_bytes(file.get()), [&](std::uint64_t bytes, std::uint64_t symbols) { return effort.take(bytes, symbols); },
      [&](const ElfSymbol& symbol) { found = found || symbol.name == function; });
  return found;
}

// Returns the files that are mapped for execution, as the process names them.
std::set<std::string> mapped_programs(const std::string& folder, Effort& effort) {
  std::set<std::string> paths;
  std::ifstream maps(folder + "/maps");
  constexpr std::size_t kMaxFiles = 1024;
  for (std::string line; std::getline(maps, line) && effort.take(line.size(), 0);) {
    if (paths.size() == kMaxFiles) {
      effort.spent = true;
      break;
    }
    const std::size_t mode = line.find(' '), path = line.find('/');
    if (mode != line.npos && path != line.npos && line.substr(mode + 1, 4).contains('x'))
      paths.insert(line.substr(path));
  }
  return paths;
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

ino_t inode(const std::string& path) {
  struct stat facts{};
  return ::stat(path.c_str(), &facts) == 0 ? facts.st_ino : 0;
}

std::string own_namespaces(const std::string& folder, const std::string& proc) {
  std::string names;
  constexpr std::pair<const char*, const char*> kKinds[] = {{"user", "user"}, {"mnt", "mount"}, {"pid", "pid"}};
  for (const auto& [file, word] : kKinds) {
    const ino_t theirs = inode(folder + "/ns/" + file), ours = inode(proc + "/self/ns/" + file);
    if (theirs != 0 && ours != 0 && theirs != ours) names += (names.empty() ? "" : " and ") + std::string(word);
  }
  if (names.empty()) return "";
  return "its own " + names + (names.contains(' ') ? " namespaces" : " namespace");
}

bool only_root_changes(const struct stat& facts) {
  return facts.st_uid == 0 && (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// Returns whether `path`, for a process with the root directory `root`, is that file, and root alone decides what lies
// there. No link may be on the way, as a user may point it anywhere. Nor may a folder in which others may rename; in a
// sticky one, the maker of a name may.
bool lies_with_root(const std::string& root, const std::string& path, const struct stat& file) {
  UniqueFd at(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat here{};
  for (const auto& name : std::filesystem::path(path).relative_path()) {
    if (name == ".." || !at || ::fstat(at.get(), &here) != 0 || !S_ISDIR(here.st_mode) || !only_root_changes(here))
      return false;
    at = UniqueFd(::openat(at.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  }
  return at && ::fstat(at.get(), &here) == 0 && S_ISREG(here.st_mode) && here.st_dev == file.st_dev &&
         here.st_ino == file.st_ino;
}

}  // namespace

std::string how_it_goes_around(std::uint32_t pid, const std::string& proc) {
  const std::string folder = proc + "/" + std::to_string(pid);
  std::vector<std::string> facts;
  const UniqueFd exe = open_regular(folder + "/exe");
  const auto program = parse_elf(elf_bytes(exe.get()), "");
  Effort effort;
  const auto mapped = mapped_programs(folder, effort);
  const bool limited =
      std::ranges::any_of(mapped, [](const std::string& path) { return file_name(path).starts_with("libheadgate"); });
  if (program && program->is_64_bit && program->interpreter.empty())
    facts.emplace_back("it is statically linked, so nothing can be preloaded");
  else if (!mapped.empty() && !limited) facts.emplace_back("the limiter is not loaded");
  std::set<std::pair<dev_t, ino_t>> seen;  // a file may have several names
  for (const std::string& path : mapped) {
    const std::string name = file_name(path);
    if (name.starts_with("libcuda.so") || name.starts_with("libheadgate") || !effort.take(0, 0)) continue;
    const UniqueFd file = open_regular(folder + "/root" + path);
    struct stat identity{};
    if (!file || ::fstat(file.get(), &identity) != 0 || !seen.emplace(identity.st_dev, identity.st_ino).second ||
        !exports(file, "cuMemAlloc_v2", effort))
      continue;
    facts.push_back("it has a copy of the driver's library: " + tenancy::escape_untrusted(path, 200));
  }
  if (effort.spent) facts.emplace_back("it has mapped more than is looked through");
  if (const auto namespaces = own_namespaces(folder, proc); !namespaces.empty())
    facts.push_back("it has " + namespaces);
  return joined(facts, "; ");
}

TrustedProgram trusted_program(std::uint32_t pid, const std::string& proc) {
  const std::string exe = proc + "/" + std::to_string(pid) + "/exe";
  std::error_code error;
  const std::string path = std::filesystem::read_symlink(exe, error).string();
  struct stat file{};
  if (error || ::stat(exe.c_str(), &file) != 0 || !only_root_changes(file)) return {};
  // By its status: the folder in /proc of a process that made itself undumpable is root's, whatever its user.
  const auto process = identity::read_process(proc, pid);
  if (!process) return {};
  if (process->uid == 0) return {.name = file_name(path), .parent = {}};
  const bool ours = lies_with_root("/", path, file);
  if (process->uid == ::geteuid()) return {.name = ours ? file_name(path) : "", .parent = {}};
  const auto parent =
      process->parent == 0 ? fail(ErrorCode::not_found, "") : identity::read_process(proc, process->parent);
  const bool of_root = parent && parent->uid == 0;
  if (!ours && !(of_root && lies_with_root(proc + "/" + std::to_string(process->parent) + "/root", path, file)))
    return {};
  return {.name = file_name(path), .parent = of_root ? trusted_program(process->parent, proc).name : ""};
}

}  // namespace headgate::node
