#include "node/bypass.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include "base/unique_fd.hpp"

namespace headgate::node {
namespace {

// Of a file that somebody else chose: whatever is broken in it makes it no ELF file, and no more than this is read of it.
class ElfFile {
 public:
  explicit ElfFile(const std::string& path) : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    Elf64_Ehdr head{};
    if (!read(0, head) || !std::equal(ELFMAG, ELFMAG + SELFMAG, head.e_ident) || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_phentsize != sizeof(Elf64_Phdr))
      return;
    head_ = head;
    constexpr std::uint16_t kMostSegments = 64;
    for (std::uint16_t i = 0; i < std::min(head.e_phnum, kMostSegments); ++i) {
      Elf64_Phdr segment{};
      if (!read(head.e_phoff + i * sizeof segment, segment)) break;
      segments_.push_back(segment);
    }
  }

  [[nodiscard]] bool readable() const { return !segments_.empty(); }
  [[nodiscard]] bool has(std::uint32_t type) const {
    return std::ranges::find(segments_, type, &Elf64_Phdr::p_type) != segments_.end();
  }

  // Whether its table of dynamic symbols, found by its sections, has that function of its own.
  [[nodiscard]] bool exports(const std::string& function) const {
    constexpr std::uint16_t kMostSections = 128;
    for (std::uint16_t i = 0; i < std::min(head_.e_shnum, kMostSections); ++i) {
      Elf64_Shdr symbols{}, names{};
      if (head_.e_shentsize != sizeof symbols || !read(head_.e_shoff + i * sizeof symbols, symbols)) return false;
      if (symbols.sh_type != SHT_DYNSYM || !read(head_.e_shoff + symbols.sh_link * sizeof names, names)) continue;
      return has_symbol(symbols, names, function);
    }
    return false;
  }

 private:
  template <typename T>
  bool read(std::uint64_t offset, T& out) const {
    return file_ && ::pread(file_.get(), &out, sizeof out, static_cast<off_t>(offset)) == sizeof out;
  }
  bool has_symbol(const Elf64_Shdr& symbols, const Elf64_Shdr& names, const std::string& function) const {
    constexpr std::uint64_t kMostSymbols = 65'536, kMostNames = 8u << 20;
    std::vector<Elf64_Sym> table(std::min(symbols.sh_size / sizeof(Elf64_Sym), kMostSymbols));
    std::string text(std::min(names.sh_size, kMostNames), '\0');
    const auto whole = [&](void* out, std::size_t bytes, std::uint64_t offset) {
      return ::pread(file_.get(), out, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
    };
    if (!whole(table.data(), table.size() * sizeof(Elf64_Sym), symbols.sh_offset) ||
        !whole(text.data(), text.size(), names.sh_offset))
      return false;
    return std::ranges::any_of(table, [&](const Elf64_Sym& symbol) {
      return symbol.st_shndx != SHN_UNDEF && symbol.st_name < text.size() && text.c_str() + symbol.st_name == function;
    });
  }

  UniqueFd file_;
  Elf64_Ehdr head_{};
  std::vector<Elf64_Phdr> segments_;
};

// Files that are mapped so that they can run, as the process names them.
std::set<std::string> mapped_programs(const std::string& folder) {
  std::set<std::string> paths;
  std::ifstream maps(folder + "/maps");
  constexpr std::size_t kMostFiles = 1024;
  for (std::string line; paths.size() < kMostFiles && std::getline(maps, line);) {
    const std::size_t mode = line.find(' '), path = line.find('/');
    if (mode != line.npos && path != line.npos && line.substr(mode + 1, 4).contains('x'))
      paths.insert(line.substr(path));
  }
  return paths;
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string harmless(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f) c = '?';
  }
  return text.substr(0, 200);
}

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
  return names.contains(' ') ? names + " namespaces of its own" : "a " + names + " namespace of its own";
}

}  // namespace

std::string how_it_goes_around(std::uint32_t pid, const std::string& proc) {
  const std::string folder = proc + "/" + std::to_string(pid);
  std::vector<std::string> facts;
  const ElfFile program(folder + "/exe");
  const auto mapped = mapped_programs(folder);
  const bool limited =
      std::ranges::any_of(mapped, [](const std::string& path) { return file_name(path).starts_with("libheadgate"); });
  if (program.readable() && !program.has(PT_INTERP))
    facts.emplace_back("it is statically linked, so nothing can be preloaded");
  else if (!mapped.empty() && !limited) facts.emplace_back("the limiter is not loaded");
  for (const std::string& path : mapped) {
    const std::string name = file_name(path);
    if (name.starts_with("libcuda.so") || name.starts_with("libheadgate") ||
        !ElfFile(folder + "/root" + path).exports("cuMemAlloc_v2"))
      continue;
    facts.push_back("it has a copy of the driver's library: " + harmless(path));
  }
  if (const auto namespaces = own_namespaces(folder, proc); !namespaces.empty())
    facts.push_back("it has " + namespaces);
  std::string text;
  for (const auto& fact : facts) text += (text.empty() ? "" : "; ") + fact;
  return text;
}

std::string trusted_program(std::uint32_t pid, const std::string& proc) {
  const std::string exe = proc + "/" + std::to_string(pid) + "/exe";
  std::error_code error;
  const std::string path = std::filesystem::read_symlink(exe, error).string();
  struct stat theirs{}, ours{};
  if (error || ::stat(exe.c_str(), &theirs) != 0 || theirs.st_uid != 0 || (theirs.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return "";
  // Its own mount namespace may give any file that root owns another name. A container of root's is believed.
  const bool same_file =
      ::stat(path.c_str(), &ours) == 0 && ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
  struct stat process{};
  const bool of_root = ::stat((proc + "/" + std::to_string(pid)).c_str(), &process) == 0 && process.st_uid == 0;
  return same_file || of_root ? file_name(path) : "";
}

}  // namespace headgate::node
