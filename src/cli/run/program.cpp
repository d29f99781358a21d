#include "cli/run/launch.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/elf.hpp"
#include "base/split.hpp"
#include "base/unique_fd.hpp"

namespace headgate::cli {
namespace {

ProgramError cannot(const std::string& command, int error_number) {
  const bool missing = error_number == ENOENT || error_number == ENOTDIR;
  return {
      missing ? 127 : 126,
      {missing ? ErrorCode::failed : ErrorCode::denied, "cannot run '" + command + "': " + std::strerror(error_number),
       missing ? "write the path of an existing program, or the name of one in PATH" : "an executable file is needed"}};
}

// Returns 0, or the errno for which the file cannot be executed.
int executable(const std::string& path) {
  struct stat facts{};
  if (::stat(path.c_str(), &facts) != 0) return errno;
  if (S_ISDIR(facts.st_mode)) return EISDIR;
  if (!S_ISREG(facts.st_mode)) return EACCES;
  return ::access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

std::expected<std::string, ProgramError> look_up(const std::string& command) {
  if (command.empty()) return std::unexpected(cannot(command, ENOENT));
  if (command.contains('/')) {
    if (const int error = executable(command)) return std::unexpected(cannot(command, error));
    return command;
  }
  const char* variable = std::getenv("PATH");
  const std::string path = variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin";
  int worst = ENOENT;
  for (const std::string& directory : split(path, ':')) {
    const std::string candidate = (directory.empty() ? "." : directory) + "/" + command;
    const int error = executable(candidate);
    if (error == 0) return candidate;
    if (error == EACCES) worst = EACCES;
  }
  return std::unexpected(cannot(command, worst));
}

// Setuid, setgid or file capabilities make the kernel set AT_SECURE, and then the loader ignores LD_PRELOAD.
std::optional<std::string> changes_identity(const std::string& path) {
  struct stat facts{};
  if (::stat(path.c_str(), &facts) != 0) return std::nullopt;
  if ((facts.st_mode & S_ISUID) != 0 && facts.st_uid != ::getuid())
    return path + " is setuid: the loader ignores preloaded libraries in it";
  if ((facts.st_mode & S_ISGID) != 0 && (facts.st_mode & S_IXGRP) != 0 && facts.st_gid != ::getgid())
    return path + " is setgid: the loader ignores preloaded libraries in it";
  std::array<char, 64> capability{};
  if (::getuid() != 0 && ::getxattr(path.c_str(), "security.capability", capability.data(), capability.size()) > 0)
    return path + " has file capabilities: the loader ignores preloaded libraries in it";
  return std::nullopt;
}

std::string first_bytes(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string bytes(256, '\0');
  const ssize_t got = fd ? ::read(fd.get(), bytes.data(), bytes.size()) : -1;
  bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return bytes;
}

// "#!  /usr/bin/env python3" -> "/usr/bin/env"; empty if the bytes are not a "#!" line.
std::string interpreter_of(const std::string& bytes) {
  if (!bytes.starts_with("#!")) return {};
  const std::size_t start = bytes.find_first_not_of(" \t", 2);
  if (start == std::string::npos) return {};
  return bytes.substr(start, bytes.find_first_of(" \t\n\r", start) - start);
}

std::optional<std::string> why_elf_unheld(const std::string& path) {
  const auto file = read_elf(path, false);
  if (!file) return file.error().message;
  if (!file->is_64_bit || file->machine != own_machine())
    return path + " is built for another architecture than the limiter";
  if (file->interpreter.empty()) return path + " is statically linked: no library can be preloaded into it";
  if (file->interpreter.contains("musl")) return path + " uses the musl C library: the limiter needs glibc";
  return std::nullopt;
}

std::optional<std::string> why_unheld(const std::string& path, int depth) {
  const std::string bytes = first_bytes(path);
  // An unreadable but executable file: nothing can be said about it, so nothing is promised.
  if (bytes.empty()) return path + " cannot be read, so whether the limiter can be loaded into it is not known";
  if (is_elf(bytes)) {
    auto secure = changes_identity(path);
    return secure ? secure : why_elf_unheld(path);
  }
  // Linux ignores setuid on scripts; only the interpreter counts. execvp hands text without "#!" to /bin/sh.
  const std::string interpreter = interpreter_of(bytes);
  if (depth == 4) return path + " has interpreters nested too deeply";
  const auto inner = why_unheld(interpreter.empty() ? "/bin/sh" : interpreter, depth + 1);
  return inner ? std::optional(path + " is a script: " + *inner) : std::nullopt;
}

}  // namespace

std::expected<Program, ProgramError> find_program(const std::string& command) {
  auto path = look_up(command);
  if (!path) return std::unexpected(path.error());
  return Program{*path, why_unheld(*path, 0)};
}

}  // namespace headgate::cli
