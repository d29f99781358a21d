#include "node/bypass.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

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

// A file that an untrusted process chose: anything broken in it makes it no ELF file, and no more of it is read.
class ElfFile {
 public:
  explicit ElfFile(const std::string& path) : file_(open_regular(path)) {
    struct stat facts{};
    if (!file_ || ::fstat(file_.get(), &facts) != 0) return;
    identity_ = {facts.st_dev, facts.st_ino};
    Elf64_Ehdr head{};
    if (!read(0, head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_phentsize != sizeof(Elf64_Phdr))
      return;
    head_ = head;
    constexpr std::uint16_t kMaxSegments = 64;
    for (std::uint16_t i = 0; i < std::min(head.e_phnum, kMaxSegments); ++i) {
      Elf64_Phdr segment{};
      if (!read(head.e_phoff + i * sizeof segment, segment)) break;
      segments_.push_back(segment);
    }
  }

  [[nodiscard]] bool readable() const { return !segments_.empty(); }
  [[nodiscard]] bool has(std::uint32_t type) const {
    return std::ranges::find(segments_, type, &Elf64_Phdr::p_type) != segments_.end();
  }

  // The same for each of its names.
  using Identity = std::pair<dev_t, ino_t>;
  [[nodiscard]] Identity identity() const { return identity_; }

  // Returns whether its table of dynamic symbols, found by its sections, defines that function. False once `effort` is
  // spent.
  [[nodiscard]] bool exports(const std::string& function, Effort& effort) const {
    constexpr std::uint16_t kMaxSections = 128;
    for (std::uint16_t i = 0; i < std::min(head_.e_shnum, kMaxSections); ++i) {
      Elf64_Shdr symbols{}, names{};
      if (head_.e_shentsize != sizeof symbols || !read(head_.e_shoff + i * sizeof symbols, symbols)) return false;
      if (symbols.sh_type != SHT_DYNSYM || !read(head_.e_shoff + symbols.sh_link * sizeof names, names)) continue;
      return has_symbol(symbols, names, function, effort);
    }
    return false;
  }

 private:
  template <typename T>
  bool read(std::uint64_t offset, T& out) const {
    return file_ && ::pread(file_.get(), &out, sizeof out, static_cast<off_t>(offset)) == sizeof out;
  }
  bool has_symbol(const Elf64_Shdr& symbols, const Elf64_Shdr& names, const std::string& function,
                  Effort& effort) const {
    constexpr std::uint64_t kMaxSymbols = 65'536, kMaxNames = 8u << 20;
    const std::uint64_t count = std::min(symbols.sh_size / sizeof(Elf64_Sym), kMaxSymbols);
    const std::uint64_t length = std::min(names.sh_size, kMaxNames);
    if (!effort.take(count * sizeof(Elf64_Sym) + length, count)) return false;
    std::vector<Elf64_Sym> table(count);
    std::string text(length, '\0');
    const auto whole = [&](void* out, std::size_t bytes, std::uint64_t offset) {
      return ::pread(file_.get(), out, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
    };
    if (!whole(table.data(), table.size() * sizeof(Elf64_Sym), symbols.sh_offset) ||
        !whole(text.data(), text.size(), names.sh_offset))
      return false;
    // The terminating NUL is compared too. Look no further: a name may be as long as the table.
    const std::string_view wanted(function.c_str(), function.size() + 1);
    return std::ranges::any_of(table, [&](const Elf64_Sym& symbol) {
      return symbol.st_shndx != SHN_UNDEF && symbol.st_name < text.size() &&
             std::string_view(text).substr(symbol.st_name, wanted.size()) == wanted;
    });
  }

  UniqueFd file_;
  Identity identity_{};
  Elf64_Ehdr head_{};
  std::vector<Elf64_Phdr> segments_;
};

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
  const ElfFile program(folder + "/exe");
  Effort effort;
  const auto mapped = mapped_programs(folder, effort);
  const bool limited =
      std::ranges::any_of(mapped, [](const std::string& path) { return file_name(path).starts_with("libheadgate"); });
  if (program.readable() && !program.has(PT_INTERP))
    facts.emplace_back("it is statically linked, so nothing can be preloaded");
  else if (!mapped.empty() && !limited) facts.emplace_back("the limiter is not loaded");
  std::set<ElfFile::Identity> seen;
  for (const std::string& path : mapped) {
    const std::string name = file_name(path);
    if (name.starts_with("libcuda.so") || name.starts_with("libheadgate") || !effort.take(0, 0)) continue;
    const ElfFile file(folder + "/root" + path);
    if (!seen.insert(file.identity()).second || !file.exports("cuMemAlloc_v2", effort)) continue;
    facts.push_back("it has a copy of the driver's library: " + tenancy::escape_untrusted(path, 200));
  }
  if (effort.spent) facts.emplace_back("it has mapped more than is looked through");
  if (const auto namespaces = own_namespaces(folder, proc); !namespaces.empty())
    facts.push_back("it has " + namespaces);
  std::string text;
  for (const auto& fact : facts) text += (text.empty() ? "" : "; ") + fact;
  return text;
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
