#include "cli/support/support_bundle.hpp"

#include <pwd.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>

#include "base/user_name.hpp"
#include "cli/share/daemon.hpp"
#include "install/paths.hpp"
#include "load/child.hpp"

namespace headgate::cli {
namespace {

namespace fs = std::filesystem;

// Returns at most 64 KiB of the file under a heading; empty if it cannot be read.
std::string content(const std::string& path) {
  constexpr std::streamsize kMost = 1 << 16;
  std::ifstream in(path);
  std::string text(static_cast<std::size_t>(kMost), '\0');
  in.read(text.data(), kMost);
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text.empty() ? "" : "== " + path + "\n" + text + (text.ends_with('\n') ? "" : "\n");
}

std::string lines_that_begin(const std::string& path, const std::vector<std::string>& beginnings) {
  std::ifstream in(path);
  std::string text;
  for (std::string line; std::getline(in, line);)
    for (const auto& beginning : beginnings)
      if (line.starts_with(beginning)) text += line + "\n";
  return text;
}

// Lists the device nodes that programs open, with mode and owner: "crw-rw-rw- 195:0 /dev/nvidia0", mode in octal.
std::string device_nodes() {
  std::set<std::string> lines;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/dev", error)) {
    struct stat facts{};
    if (!entry.path().filename().string().starts_with("nvidia") || ::stat(entry.path().c_str(), &facts) != 0) continue;
    std::array<char, 64> mode{};
    std::snprintf(mode.data(), mode.size(), "%06o %u:%u ", facts.st_mode, facts.st_uid, facts.st_gid);
    lines.insert(mode.data() + entry.path().string() + "\n");
  }
  std::string text;
  for (const auto& line : lines) text += line;
  return text;
}

}  // namespace

std::string system_facts() {
  utsname kernel{};
  std::string text;
  if (::uname(&kernel) == 0)
    text = std::string("kernel ") + kernel.sysname + " " + kernel.release + " " + kernel.version + " " +
           kernel.machine + "\n";
  text += "CPUs online " + std::to_string(::sysconf(_SC_NPROCESSORS_ONLN)) + "\n";
  text += lines_that_begin("/proc/meminfo", {"MemTotal", "MemAvailable", "SwapTotal", "SwapFree"});
  text += lines_that_begin("/etc/os-release", {"PRETTY_NAME", "ID=", "VERSION_ID"});
  return text + content("/proc/uptime") + content("/proc/loadavg");
}

std::string driver_facts() {
  std::string text = content("/proc/driver/nvidia/version") + content("/proc/driver/nvidia/params");
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc/driver/nvidia/gpus", error))
    text += content(entry.path().string() + "/information");
  const std::string modules = lines_that_begin("/proc/modules", {"nvidia"}), nodes = device_nodes();
  if (!modules.empty()) text += "== /proc/modules\n" + modules;
  if (!nodes.empty()) text += "== /dev\n" + nodes;
  return text;
}

std::string unit_facts() {
  std::error_code error;
  if (!fs::exists("/run/systemd/system", error)) return "";
  const auto shown = load::run_child(
      {.argv = {"systemctl", "show", "headgated.service",
                "--property=LoadState,ActiveState,SubState,Result,NRestarts,StatusText,User,Group,LimitNOFILE,"
                "LimitNPROC,LimitMEMLOCK,LimitCORE,TasksMax,TasksCurrent,MemoryMax,MemoryCurrent,CPUQuotaPerSecUSec,"
                "OOMScoreAdjust,DevicePolicy,DeviceAllow,WatchdogUSec,FragmentPath,DropInPaths"},
       .ends_with_us = true},
      std::chrono::seconds(10));
  return shown && !shown->out.contains("LoadState=not-found") ? shown->out : "";
}

std::string daemon_limits(const http::Endpoint& daemon) {
  const pid_t pid = pid_of(daemon);
  return pid == 0 ? "" : content("/proc/" + std::to_string(pid) + "/limits");
}

std::vector<std::string> user_names(const snapshot::Snapshot& snapshot, const std::vector<snapshot::Event>& events) {
  constexpr uid_t kFirstOrdinary = 1000;  // users, by Debian's policy; lower UIDs are system accounts
  std::set<std::string> names;
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/etc/passwd", "re"), std::fclose);
  while (file) {
    const passwd* entry = ::fgetpwent(file.get());
    if (entry == nullptr) break;
    if (entry->pw_uid >= kFirstOrdinary) names.insert(entry->pw_name);
  }
  std::set<std::uint32_t> uids = {::getuid(), ::geteuid()};
  for (const auto& share : snapshot.shares) uids.insert(share.owner_uid);
  for (const auto& process : snapshot.processes) uids.insert(process.uid);
  for (const auto& event : events) uids.insert(event.uid);
  for (const std::uint32_t uid : uids)
    if (uid != 0) names.insert(user_name(uid));
  for (const char* variable : {"USER", "LOGNAME", "SUDO_USER"}) names.insert(install::environment(variable));
  return {names.begin(), names.end()};
}

std::vector<std::string> host_names(const snapshot::Snapshot& snapshot) {
  std::vector<std::string> names;
  std::array<char, 256> own{};
  (void)::gethostname(own.data(), own.size() - 1);
  for (const std::string& name : {std::string(own.data()), snapshot.node.name}) {
    if (name == "localhost") continue;
    names.push_back(name);
    const std::size_t dot = name.find('.');
    if (dot == std::string::npos) continue;
    names.push_back(name.substr(0, dot));
    names.push_back(name.substr(dot + 1));
  }
  return names;
}

}  // namespace headgate::cli
