// A driver lists each process by its number in the pid namespace of the process that asks. This finds that number.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <tuple>

#include "base/whole_number.hpp"
#include "sim/nvml/library.hpp"
#include "sim/process_identity.hpp"

namespace headgate::sim::nvml {
namespace {

namespace fs = std::filesystem;

std::uint64_t namespace_of(const std::string& folder) {
  struct stat status{};
  return ::stat((folder + "/ns/pid").c_str(), &status) == 0 ? status.st_ino : 0;
}

// Returns the last number of NSpid, the pid that the process itself sees.
std::int32_t own_number(const std::string& folder) {
  std::ifstream file(folder + "/status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("NSpid:")) continue;
    std::istringstream numbers(line.substr(6));
    std::int32_t last = 0;
    for (std::int32_t number = 0; numbers >> number;) last = number;
    return last;
  }
  return 0;
}

// Returns 0 if the process is not in our /proc.
std::uint32_t search(const Account& account) {
  std::error_code error;
  for (fs::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
    const auto pid = whole_number<std::uint32_t>(at->path().filename().native());
    if (!pid) continue;
    if (namespace_of(at->path()) == account.pid_namespace && own_number(at->path()) == account.pid) return *pid;
  }
  return 0;
}

}  // namespace

std::uint32_t shown_pid(const Account& account) {
  static const std::uint64_t own_namespace = own_pid_namespace();
  const auto own_pid = static_cast<std::uint32_t>(account.pid);
  if (own_namespace == 0 || account.pid_namespace == 0 || account.pid_namespace == own_namespace) return own_pid;
  static std::mutex mutex;
  static std::map<std::tuple<std::uint64_t, std::int32_t, std::uint64_t>, std::uint32_t> known;  // dead ones too
  const std::scoped_lock lock(mutex);
  auto& pid = known[{account.pid_namespace, account.pid, account.start_time}];
  if (pid == 0 && account.used == 1) pid = search(account);
  return pid != 0 ? pid : own_pid;
}

}  // namespace headgate::sim::nvml
