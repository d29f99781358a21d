#include "cli/share/container_lines.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cli/term/output.hpp"
#include "oci/share_device.hpp"

namespace headgate::cli {
namespace {

bool is_searched_by_engines(const std::string& file) {
  const std::string directory = std::filesystem::path(file).parent_path();
  return directory == "/etc/cdi" || directory == "/var/run/cdi" || directory == "/run/cdi";
}

}  // namespace

std::string cdi_trouble(const snapshot::Share& share) {
  if (!share.cdi_problem.empty()) return share.cdi_problem;
  if (::access(share.cdi_file.c_str(), R_OK) == 0) return {};
  if (errno == ENOENT) return "there is no " + share.cdi_file + "; headgated writes it again within a second";
  return share.cdi_file + " cannot be read by you: " + std::strerror(errno);
}

std::string container_lines(const snapshot::Share& share) {
  if (share.cdi_file.empty() && share.cdi_problem.empty()) return {};
  if (const std::string trouble = cdi_trouble(share); !trouble.empty())
    return "no container can be given this share by --device: " + harmless(trouble) + "\n";
  const std::string device = oci::share_device_name(share.name);
  std::string lines = "containers in this share:\n  podman run --device " + device + " IMAGE\n  docker run --device " +
                      device + " IMAGE    # Docker 25 or newer\n  devices: [\"" + device +
                      "\"]    # a service of Compose\n";
  if (!is_searched_by_engines(share.cdi_file))
    lines += "engines look in /etc/cdi and /var/run/cdi unless they are told of " +
             harmless(std::filesystem::path(share.cdi_file).parent_path().string()) + "\n";
  return lines;
}

}  // namespace headgate::cli
