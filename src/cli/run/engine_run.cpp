#include "cli/run/engine_run.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/joined.hpp"
#include "base/json.hpp"
#include "base/whole_file.hpp"
#include "base/whole_number.hpp"
#include "cli/commands.hpp"
#include "cli/run/launch.hpp"
#include "cli/share/daemon.hpp"
#include "cli/share/order.hpp"
#include "cli/term/output.hpp"
#include "cli/view/names.hpp"
#include "oci/cdi_document.hpp"
#include "oci/share_device.hpp"
#include "snapshot/json.hpp"

namespace headgate::cli {
namespace {

constexpr int kEngineRefused = 125;

// What the GPU is used by; empty: by nothing.
std::string user_of(const snapshot::Gpu& gpu, const snapshot::Snapshot& snapshot) {
  for (const auto& share : snapshot.shares)
    if (is_on_gpu(share, gpu.uuid)) return "the share " + harmless(share.name);
  for (const auto& process : snapshot.processes)
    if (is_on_gpu(process, gpu.uuid)) return "process " + std::to_string(process.pid);
  return gpu.mig.value_or(false) ? "MIG" : "";
}

// Checks the share with the daemon. Without a daemon, containers can still start, because the share's CDI file remains.
Result<void> check_engine_share(const std::string& name) {
  const auto daemon = TRY(find_daemon());
  if (!daemon) return {};
  const std::string reply = TRY(ask(*daemon, "GET", "/v1/shares/" + name));
  const auto share = TRY(snapshot::from_json<snapshot::Share>(reply));
  if (const std::string trouble = cdi_trouble(share); !trouble.empty())
    return fail(ErrorCode::unsupported, "the share '" + harmless(name) + "' can be given to no container: " + trouble,
                "headgate share show " + harmless(name));
  return {};
}

// Docker's own count begins with GPU 0 each time, whatever runs there.
Result<void> add_free_gpus(const std::string& engine, EngineLine& line) {
  const auto daemon = TRY(need_daemon());
  const auto snapshot = TRY(snapshot_of(daemon));
  const auto words = gpu_words(engine, TRY(free_gpus(snapshot, line.gpus)));
  line.words.insert(line.words.begin() + static_cast<std::ptrdiff_t>(line.gpus_place), words.begin(), words.end());
  return {};
}

// Becomes the engine, with the share or the free GPUs.
Result<void> become_engine(const std::string& engine, const std::vector<std::string>& words) {
  EngineLine line = TRY(engine_line(engine, words));
  TRY(line.share.empty() ? add_free_gpus(engine, line) : check_engine_share(line.share));
  return become(line.words);
}

Result<int> run_in_engine(const Call& call) {
  complain(become_engine(call.command, call.words).error(), call.voice);
  return kEngineRefused;
}

Command engine_command(const std::string& engine) {
  return plain_command(
      kContainers, engine, "run a container in a share: " + engine + " run --share NAME ...", run_in_engine,
      Reads::nothing, [engine](Options& options) {
        options.rest = Rest::unread;
        options.footer = "headgate handles run --share NAME and run --gpus COUNT (of free GPUs); everything else is " +
                         engine + "'s";
      });
}

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

Result<EngineLine> engine_line(const std::string& engine, const std::vector<std::string>& words) {
  const std::string usage = "headgate " + engine + " run --share NAME|--gpus COUNT [OPTIONS] IMAGE [COMMAND...]";
  if (words.empty() || words.front() != "run")
    return fail(ErrorCode::usage, "headgate " + engine + " takes 'run' alone", usage);
  EngineLine line{.share = {}, .words = {engine, "run"}};
  for (std::size_t i = 1; i < words.size(); ++i) {
    // Later ones may be the container's own.
    const bool is_asked = !line.share.empty() || line.gpus > 0;
    const std::string option = is_asked ? "" : words[i].substr(0, words[i].find('='));
    const bool joined = option.size() < words[i].size();
    if (option == "--gpus") {
      const std::string value = joined ? words[i].substr(7) : i + 1 < words.size() ? words[i + 1] : "";
      if (const auto count = whole_number<std::uint16_t>(value); count && *count > 0) {
        line.gpus = *count, line.gpus_place = line.words.size();
        i += joined ? 0 : 1;
        continue;
      }
    }
    if (option != "--share") {
      line.words.push_back(words[i]);
      continue;
    }
    if (!joined && i + 1 == words.size()) return fail(ErrorCode::usage, "--share has no value", usage);
    line.share = joined ? words[i].substr(8) : words[++i];
    if (!oci::is_device_name(line.share))
      return fail(ErrorCode::usage, "--share '" + harmless(line.share) + "' is no name that containers can be given",
                  "headgate share ls");
    line.words.insert(line.words.end(), {"--device", oci::share_device_name(line.share)});
  }
  if (line.share.empty() && line.gpus == 0)
    return fail(ErrorCode::usage, "neither a share nor a count of GPUs is named", usage);
  return line;
}

std::vector<std::string> gpu_words(const std::string& engine, const std::vector<std::string>& uuids) {
  std::vector<std::string> words;
  if (engine == "podman") {
    for (const std::string& uuid : uuids) words.insert(words.end(), {"--device", "nvidia.com/gpu=" + uuid});
    return words;
  }
  // One field of a CSV record, so that its commas part no keys.
  return {"--gpus", "\"device=" + joined(uuids, ",") + "\""};
}

Result<std::vector<std::string>> free_gpus(const snapshot::Snapshot& snapshot, unsigned count) {
  std::vector<std::string> free;
  std::string used;
  for (const auto& gpu : snapshot.gpus) {
    const std::string user = user_of(gpu, snapshot);
    if (user.empty()) free.push_back(gpu.uuid);
    else used += (used.empty() ? ": GPU " : ", GPU ") + std::to_string(gpu.index) + " is used by " + user;
  }
  if (free.size() < count)
    return fail(ErrorCode::no_capacity,
                "--gpus " + std::to_string(count) + ": " + std::to_string(free.size()) + " of " +
                    std::to_string(snapshot.gpus.size()) + " GPUs are free" + used,
                "headgate free lists room for a share: --share NAME");
  free.resize(count);
  return free;
}

Commands engine_commands() { return {engine_command("docker"), engine_command("podman")}; }

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
