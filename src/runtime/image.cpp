#include "runtime/image.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ranges>

#include "base/unique_fd.hpp"

namespace headgate::runtime {
namespace {

#if defined(__aarch64__)
constexpr const char* kLibraryDirectories[] = {
    "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"};
constexpr const char* kMuslLoader = "/lib/ld-musl-aarch64.so.1";
#else
constexpr const char* kLibraryDirectories[] = {
    "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"};
constexpr const char* kMuslLoader = "/lib/ld-musl-x86_64.so.1";
#endif
constexpr unsigned kOldestMinor = 17;  // of glibc 2: required by the limiter (tests/contract)
constexpr std::size_t kMaxProgramHead = 64 << 10, kMaxLibrary = 16 << 20, kMaxList = 64 << 10;

class Root {
 public:
  explicit Root(const std::string& path) : fd_(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {}

  // Opens a regular file; none if it is missing or unreadable.
  [[nodiscard]] UniqueFd open(const std::string& path) const {
    open_how how{};
    how.flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC;
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
    UniqueFd file(static_cast<int>(::syscall(SYS_openat2, fd_.get(), path.c_str(), &how, sizeof how)));
    struct stat facts{};
    if (!file || ::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return {};
    return file;
  }
  // Returns the first `most` bytes of a file; empty if it is missing or unreadable.
  [[nodiscard]] std::optional<std::string> read(const std::string& path, std::size_t most) const {
    const UniqueFd file = open(path);
    struct stat facts{};
    if (!file || ::fstat(file.get(), &facts) != 0) return std::nullopt;
    std::string text(std::min(static_cast<std::size_t>(facts.st_size), most), '\0');
    std::size_t size = 0;
    while (size < text.size()) {
      const ssize_t got = ::read(file.get(), text.data() + size, text.size() - size);
      if (got <= 0) break;
      size += static_cast<std::size_t>(got);
    }
    text.resize(size);
    return text;
  }

 private:
  UniqueFd fd_;
};

// Searches the library (about 2 MB) through a small buffer, which costs less than reading all of it into memory.
std::string version_of_library(const UniqueFd& library) {
  constexpr std::size_t kPart = 64 << 10, kOverlap = 512;
  std::string buffer(kOverlap + kPart, '\0');
  std::size_t kept = 0;
  for (std::size_t all = 0; all < kMaxLibrary;) {
    const ssize_t got = ::read(library.get(), buffer.data() + kept, kPart);
    if (got <= 0) return {};
    all += static_cast<std::size_t>(got);
    const std::string_view part(buffer.data(), kept + static_cast<std::size_t>(got));
    if (std::string version = glibc_version(part); !version.empty()) return version;
    kept = std::min(kOverlap, part.size());
    std::copy(part.end() - static_cast<std::ptrdiff_t>(kept), part.end(), buffer.begin());
  }
  return {};
}

std::optional<std::string> program_of(const Root& root, const oci::ContainerConfig& config) {
  const oci::Json *args = config.at({"process", "args"}), *cwd = config.at({"process", "cwd"});
  if (args == nullptr || args->empty()) return std::nullopt;
  const auto name = (*args)[0].get<std::string>();
  if (name.empty()) return std::nullopt;
  if (name.contains('/')) {
    const std::string base = cwd != nullptr && cwd->is_string() ? cwd->get<std::string>() : "/";
    return root.read((std::filesystem::path(base) / name).string(), kMaxProgramHead);
  }
  const std::string path =
      config.variable("PATH").value_or("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
  for (const auto folder : std::views::split(path, ':'))
    if (!folder.empty())
      if (auto found = root.read(std::string(folder.begin(), folder.end()) + "/" + name, kMaxProgramHead)) return found;
  return std::nullopt;
}

// Returns a script's interpreter, such as /bin/sh for "#!/bin/sh -e".
std::string interpreter_of_script(std::string_view text) {
  if (!text.starts_with("#!")) return {};
  const std::string_view line = text.substr(2, std::min(text.find('\n'), text.size()) - 2);
  const auto begin = std::min(line.find_first_not_of(" \t"), line.size());
  return std::string(line.substr(begin, std::min(line.find_first_of(" \t", begin), line.size()) - begin));
}

bool is_old(const std::string& version) {
  unsigned major = 0, minor = 0;
  const char* const end = version.data() + version.size();
  const auto first = std::from_chars(version.data(), end, major);
  if (first.ec != std::errc() || first.ptr == end) return false;
  return major == 2 && std::from_chars(first.ptr + 1, end, minor).ec == std::errc() && minor < kOldestMinor;
}

}  // namespace

std::string glibc_version(std::string_view bytes) {
  constexpr std::string_view kBefore = "release version ";
  const auto library = bytes.find("GNU C Library");
  const auto at = library == std::string_view::npos ? library : bytes.find(kBefore, library);
  if (at == std::string_view::npos || at - library > 200) return {};
  const std::string_view rest = bytes.substr(at + kBefore.size(), 16);
  const auto end = rest.find_first_not_of("0123456789.");
  if (end == std::string_view::npos) return {};  // it may continue beyond these bytes
  std::string_view version = rest.substr(0, end);
  while (version.ends_with('.')) version.remove_suffix(1);
  return std::string(version);
}

std::string limiter_trouble(const ImageFacts& facts) {
  const bool is_known = facts.program.has_value();
  if (is_known && (!facts.program->is_64_bit || facts.program->machine != own_machine()))
    return "its first program is for another machine, or has 32 bits";
  const std::string loader = is_known ? facts.program->interpreter : "";
  if (loader.contains("ld-musl")) return "its first program is built for musl, and the limiter for glibc";
  if (loader.starts_with("/nix/store"))
    return "its loader is NixOS's, which reads another list than /etc/ld.so.preload";
  if (facts.glibc && is_old(*facts.glibc))
    return "its glibc is " + *facts.glibc + ", and the limiter needs 2." + std::to_string(kOldestMinor);
  // A static program may start dynamic ones.
  if (!loader.empty() || facts.glibc) return {};
  if (facts.has_musl) return "it is built for musl, and the limiter for glibc";
  return is_known ? "its first program is static, and it has no C library" : "";
}

ImageFacts look_at_image(const std::string& path, const oci::ContainerConfig& config) {
  const Root root(path);
  ImageFacts facts;
  auto program = program_of(root, config);
  if (program)
    if (const std::string reader = interpreter_of_script(*program); !reader.empty())
      program = root.read(reader, kMaxProgramHead);
  if (program)
    if (auto read = read_elf_bytes(*program, "", false)) facts.program = std::move(*read);
  facts.has_musl = root.read(kMuslLoader, 1).has_value();
  for (const char* directory : kLibraryDirectories) {
    const UniqueFd library = root.open(std::string(directory) + "/libc.so.6");
    if (!library) continue;
    facts.glibc = version_of_library(library);
    break;
  }
  facts.preload_list = root.read("/etc/ld.so.preload", kMaxList).value_or("");
  return facts;
}

}  // namespace headgate::runtime
