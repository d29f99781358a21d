#include "cli/doctor.hpp"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/launch.hpp"
#include "cli/paths.hpp"
#include "cli/program.hpp"
#include "cli/shares.hpp"
#include "cli/source.hpp"
#include "guest/grant/environment.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;
using Findings = std::vector<Finding>;

std::string health_word(Health health) { return health == Health::ok ? "ok" : health == Health::warn ? "warn" : "fail"; }

Finding failed(const Error& error) { return {Health::fail, error.message, error.hint}; }

bool exists(const char* path) {
  struct stat facts {};
  return ::stat(path, &facts) == 0;
}

void examine_driver(const Invocation& invocation, const config::Config& config, Findings& out) {
  const auto gpus = gpus_to_view(invocation.simulate, config["sim.profile"].value);
  if (!gpus) {
    out.push_back({Health::warn, gpus.error().message, gpus.error().hint});
    return;
  }
  out.push_back({gpus->list.empty() ? Health::warn : Health::ok,
                 "driver " + gpus->driver_version + (gpus->simulated ? " (SIMULATED)" : "") + ", NVML answers, " + std::to_string(gpus->list.size()) + (gpus->list.size() == 1 ? " GPU" : " GPUs"),
                 gpus->list.empty() ? "check the card and nvidia-smi" : ""});
  if (!gpus->simulated && ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) == nullptr) {
    out.push_back({Health::fail, "NVML is there, but libcuda.so.1 does not load", "install the driver's CUDA library (Debian: libcuda1)"});
  }
}

// Loads the limiter into a program that does nothing, as every program under `run` gets it.
void examine_limiter(Findings& out) {
  const auto library = limiter_library();
  if (!library) return out.push_back(failed(library.error()));
  const auto program = find_program("true");
  if (!program || program->unheld) return out.push_back({Health::warn, "no dynamically linked 'true' to try the limiter with", ""});
  const auto status = run_and_wait({program->path, {"true"}, {"LD_PRELOAD=" + *library, "LD_BIND_NOW=1"}});
  if (!status || *status != 0) {
    return out.push_back({Health::fail, "a program with the limiter preloaded does not start" + (status ? " (exit " + std::to_string(*status) + ")" : ": " + status.error().message),
                          "run LD_PRELOAD=" + *library + " true, and see what the loader says"});
  }
  out.push_back({Health::ok, "the limiter loads into programs: " + *library, ""});
}

void examine_runtime_dir(Findings& out) {
  const auto base = runtime_dir();
  if (!base) return out.push_back(failed(base.error()));
  if (auto made = make_private_directory(*base); !made) return out.push_back(failed(made.error()));
  struct stat facts {};
  ::stat(base->c_str(), &facts);
  if (facts.st_uid != ::geteuid()) return out.push_back({Health::fail, *base + " belongs to uid " + std::to_string(facts.st_uid), "remove it, or set HEADGATE_RUNTIME_DIR"});
  if ((facts.st_mode & 0077) != 0) return out.push_back({Health::fail, *base + " is open to others", "chmod 700 " + *base});
  if (::access(base->c_str(), W_OK) != 0) return out.push_back({Health::fail, *base + " cannot be written", "set HEADGATE_RUNTIME_DIR to a directory that you may write"});
  const Shares shares = read_shares(*base);
  out.push_back({Health::ok, "shares lie in " + *base + " (" + std::to_string(shares.list.size()) + ")", ""});
  for (const Error& error : shares.unreadable) out.push_back({Health::warn, error.message, error.hint});
}

void examine_machine(Findings& out) {
  if (!exists("/proc/self/stat")) out.push_back({Health::warn, "/proc is not mounted: a process is known by its number only", "mount -t proc proc /proc"});
  if (!exists("/dev/tty") && !exists("/dev/null")) out.push_back({Health::warn, "/dev is empty", "mount -t devtmpfs dev /dev"});
  if (exists("/etc/ld.so.preload")) out.push_back({Health::warn, "/etc/ld.so.preload exists: libraries are loaded into every program", "look whether another limiter is named in it"});
  if (!simulator_libraries()) out.push_back({Health::warn, "the simulator is not installed: --sim does not work", "install headgate whole (cmake --install)"});
}

void examine_environment(Findings& out) {
  const auto reading = grant::read_environment(::environ, {});
  if (!reading.refusal) return;
  char line[512];
  grant::describe(reading.refusal, line);
  out.push_back({Health::fail, std::string("environment: ") + line, "correct it, or unset it: programs under the limiter are refused the GPU"});
}

}  // namespace

std::vector<Finding> examine(const Invocation& invocation, const config::Config& config) {
  Findings out;
  examine_driver(invocation, config, out);
  examine_limiter(out);
  examine_runtime_dir(out);
  examine_machine(out);
  examine_environment(out);
  out.push_back({Health::ok, "level hook: a program that avoids its loader (static, setuid, own system calls) is not held", ""});
  return out;
}

std::string findings_text(const std::vector<Finding>& findings, const Voice& voice) {
  std::string text;
  for (const Finding& finding : findings) {
    std::string word = health_word(finding.health);
    word.resize(6, ' ');
    text += (finding.health == Health::ok ? word : warning(word, voice)) + finding.what + "\n";
    if (!finding.repair.empty()) text += "      repair: " + finding.repair + "\n";
  }
  return text;
}

std::string findings_json(const std::vector<Finding>& findings) {
  Json json = {{"schema", "headgate.doctor/v1"}, {"findings", Json::array()}};
  for (const Finding& finding : findings) json["findings"].push_back({{"health", health_word(finding.health)}, {"what", finding.what}, {"repair", finding.repair}});
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace headgate::cli
