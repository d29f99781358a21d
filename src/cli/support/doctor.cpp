#include "cli/support/doctor.hpp"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/user_name.hpp"
#include "cli/commands.hpp"
#include "cli/run/launch.hpp"
#include "cli/share/daemon.hpp"
#include "cli/view/own_ledgers.hpp"
#include "guest/grant/environment.hpp"
#include "install/paths.hpp"
#include "install/source.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;
using Findings = std::vector<Finding>;

std::string health_word(Health health) {
  return health == Health::ok ? "ok" : health == Health::warn ? "warn" : "fail";
}

Finding failed(const Error& error) { return {Health::fail, error.message, error.hint}; }

bool exists(const char* path) { return ::access(path, F_OK) == 0; }

void examine_driver(const Result<install::Gpus>& gpus, Findings& out) {
  if (!gpus) {
    out.push_back({Health::warn, gpus.error().message, gpus.error().hint});
    return;
  }
  out.push_back({gpus->list.empty() ? Health::warn : Health::ok,
                 "driver " + gpus->driver_version + (gpus->simulated ? " (SIMULATED)" : "") + ", NVML answers, " +
                     std::to_string(gpus->list.size()) + (gpus->list.size() == 1 ? " GPU" : " GPUs"),
                 gpus->list.empty() ? "check the card and nvidia-smi" : ""});
  for (const snapshot::Gpu& gpu : gpus->list) {
    if (gpu.uuid.empty())
      out.push_back({Health::fail, "GPU " + std::to_string(gpu.index) + " " + gpu.model,
                     "nvidia-smi and dmesg say what became of it, mostly a reset or a reboot helps; let go of the "
                     "driver first: headgate gpu release"});
  }
  if (!gpus->simulated && ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) == nullptr) {
    out.push_back({Health::fail, "NVML is there, but libcuda.so.1 does not load",
                   "install the driver's CUDA library (Debian: libcuda1)"});
  }
}

// Preloads the limiter into a program that does nothing, as `run` does.
void examine_limiter(Findings& out) {
  const auto library = install::limiter_library();
  if (!library) return out.push_back(failed(library.error()));
  const auto program = find_program("true");
  if (!program || program->unheld)
    return out.push_back({Health::warn, "no dynamically linked 'true' to try the limiter with", ""});
  const auto status = run_and_wait({program->path, {"true"}, {"LD_PRELOAD=" + *library, "LD_BIND_NOW=1"}});
  if (!status || *status != 0) {
    return out.push_back({Health::fail,
                          "a program with the limiter preloaded does not start" +
                              (status ? " (exit " + std::to_string(*status) + ")" : ": " + status.error().message),
                          "run LD_PRELOAD=" + *library + " true, and see what the loader says"});
  }
  out.push_back({Health::ok, "the limiter loads into programs: " + *library, ""});
}

// Returns true if the daemon keeps or reports this share, so that we must not suggest removing it.
bool is_daemons(const std::string& name, const std::optional<snapshot::Snapshot>& told) {
  return told && std::ranges::any_of(told->shares, [&](const snapshot::Share& share) {
           return share.name == name && (share.created || !share.problem.empty());
         });
}

// Checks the runtime directory without creating it; the first run that needs it does that.
void examine_runtime_dir(const std::optional<snapshot::Snapshot>& told, Findings& out) {
  const auto base = install::runtime_dir();
  if (!base) return out.push_back(failed(base.error()));
  struct stat facts{};
  if (::stat(base->c_str(), &facts) != 0) {
    std::string above = *base;
    while (!above.empty() && !exists(above.c_str())) above.resize(above.rfind('/'));
    if (::access(above.empty() ? "/" : above.c_str(), W_OK | X_OK) == 0)
      return out.push_back({Health::ok, "shares will lie in " + *base + ", which the first run makes", ""});
    return out.push_back({Health::fail, *base + " is not there and cannot be made: " + std::strerror(errno),
                          "set HEADGATE_RUNTIME_DIR or XDG_RUNTIME_DIR to a directory that you may write"});
  }
  if (facts.st_uid != ::geteuid())
    // It may hold a daemon's shares: only its owner or root can know whether it is still needed.
    return out.push_back({Health::fail, *base + " belongs to " + user_name(facts.st_uid),
                          ::geteuid() == 0 ? "where " + user_name(facts.st_uid) +
                                                 " needs it no more, remove it; or set HEADGATE_RUNTIME_DIR to another"
                                           : "set HEADGATE_RUNTIME_DIR to a directory of your own, or unset it"});
  // A daemon that does not answer may own everything here.
  const bool silent = !told && socket_left_behind();
  // A daemon's directory is 0755 so that others can reach its sockets, and root's is recreated at the next start.
  if ((facts.st_mode & (told || silent || ::geteuid() == 0 ? 0022 : 0066)) != 0)
    return out.push_back({Health::fail, *base + " is open to others", "chmod 700 " + *base});
  if (::access(base->c_str(), W_OK) != 0)
    return out.push_back(
        {Health::fail, *base + " cannot be written", "set HEADGATE_RUNTIME_DIR to a directory that you may write"});
  const OwnLedgers ledgers = read_own_ledgers(*base);
  out.push_back({Health::ok, "shares lie in " + *base + " (" + std::to_string(ledgers.list.size()) + ")", ""});
  for (const auto& share : ledgers.broken) {
    if (is_daemons(share.name, told)) continue;
    out.push_back({Health::fail, share.problem,
                   silent ? "start headgated, which may keep it: headgate share show " + share.name
                          : "if it is no longer needed: rm -r " + *base + "/shares/" + share.name});
  }
  for (const auto& ledger : ledgers.list) {
    const snapshot::Share& share = ledger.share;
    // A share made by a daemon is in its store, so removing its pages does not remove it.
    if (!ledger.attended && !silent && !share.created && !is_daemons(share.name, told))
      out.push_back({Health::ok, "the share " + share.name + " is empty; its limits hold again with its next program",
                     "rm -r " + *base + "/shares/" + share.name + "   (only to forget its limits and history)"});
  }
}

// Shares whose memory the driver should hold too, and does not.
void examine_driver_limits(const snapshot::Snapshot& told, Findings& out) {
  for (const snapshot::Share& share : told.shares)
    if (!share.driver_problem.empty())
      out.push_back(
          {Health::warn,
           "the share " + share.name + " is held by the limiter alone: the driver's limit " + share.driver_problem,
           "headgated as root, on a host with cgroups of version 2 alone, and no MIG"});
}

void examine_machine(Findings& out) {
  if (!exists("/proc/self/stat"))
    out.push_back(
        {Health::warn, "/proc is not mounted: a process is known by its number only", "mount -t proc proc /proc"});
  if (!exists("/dev/tty") && !exists("/dev/null"))
    out.push_back({Health::warn, "/dev is empty", "mount -t devtmpfs dev /dev"});
  if (exists("/etc/ld.so.preload"))
    out.push_back({Health::warn, "/etc/ld.so.preload exists: libraries are loaded into every program",
                   "look whether another limiter is named in it"});
  if (!install::simulator_libraries())
    out.push_back({Health::warn, "the simulator is not installed: --sim does not work",
                   "install headgate whole (cmake --install)"});
}

// Returns what a level does not guarantee.
std::string format_level(const std::string& level) {
  if (level == "hook") return "a program that avoids its loader (static, setuid, own system calls) is not held";
  if (level == "hook+driver") return "a program that avoids its loader is held in its memory, not in its time";
  if (level == "observe") return "some share is only watched; nothing holds its programs";
  return "the weakest that holds for any share here";
}

std::size_t failures(const Findings& findings) {
  return static_cast<std::size_t>(std::ranges::count(findings, Health::fail, &Finding::health));
}

std::string format_verdict(const Examination& examination) {
  if (examination.ready()) return examination.simulated ? "ready on a simulated node" : "ready";
  const std::size_t count = failures(examination.findings) + (examination.has_gpu ? 0 : 1);
  const std::string repairs = std::to_string(count) + (count == 1 ? " thing" : " things") + " to repair";
  return "not ready" + std::string(examination.has_gpu ? "" : " for a GPU") + ": " + repairs +
         (failures(examination.findings) == 0 && install::simulator_libraries() ? "; ready for --sim" : "");
}

void examine_environment(Findings& out) {
  const auto reading = grant::read_environment(::environ, {});
  if (!reading.refusal) return;
  char line[512];
  grant::describe(reading.refusal, line);
  out.push_back({Health::fail, std::string("environment: ") + line,
                 "correct it, or unset it: programs under the limiter are refused the GPU"});
}

using Libraries = std::vector<std::string>;

Result<int> compare_libraries(const Call& call, const Libraries& libraries) {
  std::vector<SymbolReport> reports;
  for (const auto& library : libraries) reports.push_back(TRY(compare_symbols(library)));
  TRY(show(call.voice.format == Format::json ? symbols_json(reports) : symbols_text(reports, call.voice)));
  return std::ranges::all_of(reports, &SymbolReport::sound) ? 0 : exit_status(ErrorCode::unsupported);
}

Result<int> doctor(const Call& call, const Libraries& libraries, const SelfTest& self_test) {
  if (!libraries.empty()) return compare_libraries(call, libraries);
  const Examination examination = examine(call, self_test);
  TRY(show(call.voice.format == Format::json ? findings_json(examination) : findings_text(examination, call.voice)));
  return examination.ready() ? 0 : 1;
}

}  // namespace

Examination examine(const Call& call, const SelfTest& self_test) {
  Examination all{.findings = {}, .daemon = false, .simulated = false, .level = "hook"};
  Findings& out = all.findings;
  const auto told = call.simulate ? std::nullopt : examine_daemon(out);
  const auto gpus = told ? install::Gpus{told->gpus, told->node.driver_version, told->node.simulated}
                         : install::gpus_to_view(call.simulate, call.configuration.config["sim.profile"].value);
  // If NVML is released, the snapshot's GPUs are out of date; the daemon's own findings cover it.
  if (!told || !told->node.nvml_released) examine_driver(gpus, out);
  out.push_back({Health::ok,
                 "glibc " + std::string(::gnu_get_libc_version()) + "; programs that are held need 2.17 or later", ""});
  examine_limiter(out);
  if (gpus && !gpus->list.empty()) out.push_back(self_test(gpus->simulated));
  examine_runtime_dir(told, out);
  examine_machine(out);
  examine_environment(out);
  if (told) {
    all.daemon = true;
    all.level = told->node.level;
    examine_driver_limits(*told, out);
  }
  all.simulated = gpus && gpus->simulated;
  all.has_gpu = gpus && !gpus->list.empty();
  out.push_back({Health::ok, "level " + all.level + ": " + format_level(all.level), ""});
  return all;
}

bool Examination::ready() const { return has_gpu && failures(findings) == 0; }

std::string findings_text(const Examination& examination, const Voice& voice) {
  std::string text;
  for (const Finding& finding : examination.findings) {
    std::string word = health_word(finding.health);
    word.resize(6, ' ');
    text += (finding.health == Health::ok ? word : warning(word, voice)) + harmless(finding.what) + "\n";
    if (!finding.repair.empty())
      text += "      " + std::string(finding.health == Health::ok ? "to change it: " : "repair: ") +
              harmless(finding.repair) + "\n";
  }
  return text + bold(format_verdict(examination), voice) + "\n";
}

std::string findings_json(const Examination& examination) {
  Json json = {{"schema", "headgate.doctor/v1"}, {"simulated", examination.simulated}, {"level", examination.level},
               {"daemon", examination.daemon},   {"ready", examination.ready()},       {"findings", Json::array()}};
  for (const Finding& finding : examination.findings)
    json["findings"].push_back(
        {{"health", health_word(finding.health)}, {"what", finding.what}, {"repair", finding.repair}});
  return pretty_json(json);
}

Commands doctor_commands(const SelfTest& self_test) {
  return {command<Libraries>(
      kStart, "doctor", "check what headgate needs, and how to repair it",
      [](Options& options, Libraries& libraries) {
        options.simulated();
        options
            .list("--symbols", "LIBRARY", "compare a driver library's functions with the table headgate knows",
                  Takes::some, libraries)
            .completes = ":file";
      },
      [self_test](const Call& call, const Libraries& libraries) { return doctor(call, libraries, self_test); })};
}

}  // namespace headgate::cli
