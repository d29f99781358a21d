#include "runtime/node_facts.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ranges>
#include <sstream>

#include "base/utf8.hpp"
#include "base/whole_file.hpp"

namespace headgate::runtime {

std::string program_on_path(const std::string& name, bool but_this) {
  struct stat ours{};
  if (but_this && ::stat("/proc/self/exe", &ours) != 0) return {};
  const char* const path = std::getenv("PATH");
  for (const auto folder : std::views::split(std::string_view(path == nullptr ? "" : path), ':')) {
    const std::string file = std::string(folder.begin(), folder.end()) + "/" + name;
    struct stat facts{};
    if (file.starts_with('/') && ::stat(file.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) &&
        ::access(file.c_str(), X_OK) == 0 && !(but_this && facts.st_dev == ours.st_dev && facts.st_ino == ours.st_ino))
      return file;
  }
  return {};
}

Result<oci::HostNode> host_node(const std::string& path) {
  struct stat facts{};
  if (::lstat(path.c_str(), &facts) != 0) return fail_errno("the device node " + printable(path), errno);
  const char type = S_ISCHR(facts.st_mode) ? 'c' : S_ISBLK(facts.st_mode) ? 'b' : S_ISFIFO(facts.st_mode) ? 'p' : '\0';
  if (type == '\0') return fail(ErrorCode::usage, printable(path) + " is no device node");
  return oci::HostNode{.type = type,
                       .major = static_cast<std::int64_t>(major(facts.st_rdev)),
                       .minor = static_cast<std::int64_t>(minor(facts.st_rdev)),
                       .mode = facts.st_mode & 07777u};
}

std::string driver_version(std::string_view text) {
  std::istringstream words{std::string(text.substr(0, text.find('\n')))};
  for (std::string word; words >> word;)
    if (word.contains('.') && word.find_first_not_of("0123456789.") == std::string::npos) return word;
  return {};
}

oci::DockerNode this_node() {
  oci::DockerNode node;
  node.nvidia_cdi_hook = !program_on_path("nvidia-cdi-hook").empty();
  node.nvidia_runtime_hook = program_on_path("nvidia-container-runtime-hook");
  node.amd_runtime = !program_on_path("amd-container-runtime").empty();
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) node.environment.emplace_back(*entry);
  if (const auto version = read_whole_file("/proc/driver/nvidia/version", 4096))
    node.gpus.driver = driver_version(version->text);
  node.gpus.cuda = oci::cuda_of_driver(node.gpus.driver);
  node.find_node = host_node;
  return node;
}

}  // namespace headgate::runtime
