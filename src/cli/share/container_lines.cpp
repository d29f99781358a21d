#include "cli/share/container_lines.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/whole_file.hpp"
#include "cli/term/output.hpp"
#include "oci/share_device.hpp"

namespace headgate::cli {
namespace {

bool is_searched_by_engines(const std::string& file) {
  const std::string directory = std::filesystem::path(file).parent_path();
  return directory == "/etc/cdi" || directory == "/var/run/cdi" || directory == "/run/cdi";
}

// The directory that makes a program a client of the share's control daemon; empty if the file has none.
std::string mps_pipe_in(const std::string& cdi_file) {
  constexpr std::size_t kMaxBytes = 1 << 20;
  constexpr std::string_view kVariable = "CUDA_MPS_PIPE_DIRECTORY=";
  const auto file = read_whole_file(cdi_file, kMaxBytes);
  if (!file) return {};
  try {
    const nlohmann::ordered_json document = parse_json(file->text);
    for (const std::string variable : document.at("devices").at(0).at("containerEdits").at("env"))
      if (variable.starts_with(kVariable)) return variable.substr(kVariable.size());
  } catch (const std::exception&) {  // it is being checked elsewhere: this only shows it
  }
  return {};
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
    return "no container can be given this share by --device: " + harmless(trouble) + "\n  what helps: " +
           (share.cdi_file.empty() ? "cdi.dir = \"/var/run/cdi\" in headgated's configuration, and a restart of it"
                                   : "headgate doctor says more; headgated tries again each second") +
           "; or mounts instead: headgate limiter install DIR\n";
  const std::string device = oci::share_device_name(share.name);
  std::string lines = "containers in this share:\n  podman run --device " + device + " IMAGE\n  docker run --device " +
                      device + " IMAGE    # Docker 25 or newer\n  devices: [\"" + device +
                      "\"]    # a service of Compose\n";
  if (const std::string pipe = share.isolation == "mps" ? mps_pipe_in(share.cdi_file) : ""; !pipe.empty())
    lines += "  podman exec --env CUDA_MPS_PIPE_DIRECTORY=" + harmless(pipe) +
             " CONTAINER PROGRAM    # a client of MPS too; so with docker\n";
  if (!is_searched_by_engines(share.cdi_file))
    lines += "engines look in /etc/cdi and /var/run/cdi unless they are told of " +
             harmless(std::filesystem::path(share.cdi_file).parent_path().string()) + "\n";
  return lines;
}

}  // namespace headgate::cli
