#include "cli/run/launch.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/joined.hpp"
#include "guest/grant/environment.hpp"
#include "guest/grant/text.hpp"
#include "install/paths.hpp"

namespace headgate::cli {
namespace {

// Variables that set limits or choose GPUs. The share's pages define these now; other values would be refused.
bool is_replaced(std::string_view name) {
  using enum grant::Meaning;
  constexpr std::string_view kOurs[] = {"LD_PRELOAD",         "LD_LIBRARY_PATH",      "CUDA_VISIBLE_DEVICES",
                                        "CUDA_DEVICE_ORDER",  "HEADGATE_SIM_DIR",     "HEADGATE_RUNTIME_DIR",
                                        "HEADGATE_SHARE_DIR", "HEADGATE_VISIBLE_GPUS"};
  constexpr std::array kReplaced = {memory,      host_memory, ceiling, soft,          gpu,     share,
                                    fail_policy, uuid_list,   uuid_at, oversubscribe, opt_out, compute_policy};
  const auto is_named = [name](const auto& row) {
    if (name == row.name) return true;
    std::uint64_t index = 0;
    return row.indexed && name.size() > row.name.size() + 1 && name.starts_with(row.name) &&
           name[row.name.size()] == '_' && grant::whole_number(name.substr(row.name.size() + 1), 1u << 30, index);
  };
  return std::ranges::find(kOurs, name) != std::end(kOurs) ||
         std::ranges::any_of(grant::variables(), [&](const auto& row) {
           return std::ranges::find(kReplaced, row.meaning) != kReplaced.end() && is_named(row);
         });
}

constexpr std::string_view kThreadPercentage = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";

bool sets(const Entry& entry, std::string_view name) {
  return std::ranges::any_of(entry.variables, [name](const auto& variable) { return variable.first == name; });
}

bool has_pipe_of_ours(const Entry& entry) { return sets(entry, "CUDA_MPS_PIPE_DIRECTORY"); }

// What a program asks of MPS that a control daemon of headgated, which speaks v2, does not have.
Result<void> check_mps_wishes(const Entry& entry) {
  if (!has_pipe_of_ours(entry)) return {};
  const std::string version = install::environment("CUDA_MPS_PROTOCOL_VERSION");
  const bool partition = !install::environment("CUDA_MPS_SM_PARTITION").empty();
  if (!partition && (version.empty() || version == "2")) return {};
  return fail(ErrorCode::unsupported,
              partition ? "CUDA_MPS_SM_PARTITION is set: static SM partitions of MPS are not supported yet"
                        : "CUDA_MPS_PROTOCOL_VERSION is '" + version + "': MPS v3 is not supported yet",
              "unset it: the share '" + entry.share + "' has its part of the SMs by percentage");
}

// Whether the driver will look for an MPS server: in the directory that is named, else in its own, where there is a
// control daemon.
bool will_be_mps_client(const Entry& entry) {
  if (has_pipe_of_ours(entry)) return true;
  return !install::environment("CUDA_MPS_PIPE_DIRECTORY").empty() || ::access("/tmp/nvidia-mps/control", F_OK) == 0;
}

// If the environment has a percentage already, the smaller one wins.
unsigned thread_percentage(unsigned of_share) {
  std::uint64_t own = 0;
  const bool known =
      grant::whole_number(install::environment(std::string(kThreadPercentage).c_str()), 100, own) && own > 0;
  return known ? std::min(of_share, static_cast<unsigned>(own)) : of_share;
}

}  // namespace

Result<std::vector<std::string>> child_environment(const Entry& entry, const config::Config& config) {
  TRY(check_mps_wishes(entry));
  std::vector<std::string> all;
  const bool by_percentage = entry.thread_percentage < 100 && will_be_mps_client(entry);
  for (char** variable = ::environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    if (!is_replaced(name) && !(by_percentage && name == kThreadPercentage) && !sets(entry, name))
      all.emplace_back(text);
  }
  const std::string library = TRY(install::limiter_library());
  if (library.find_first_of(" :") != std::string::npos)
    return fail(ErrorCode::failed,
                "the limiter lies at '" + library + "': the loader takes no path with a space or a colon",
                "install headgate elsewhere");
  const std::string preload = install::environment("LD_PRELOAD");
  all.push_back("LD_PRELOAD=" + (preload.empty() ? "" : preload + ":") + library);
  const std::string uuids = joined(entry.uuids, ",");
  all.push_back("CUDA_VISIBLE_DEVICES=" + uuids);
  all.push_back("HEADGATE_VISIBLE_GPUS=" + uuids);
  all.push_back("CUDA_DEVICE_ORDER=PCI_BUS_ID");
  all.push_back("HEADGATE_SHARE=" + entry.share);
  all.push_back("HEADGATE_RUNTIME_DIR=" + entry.base);
  if (by_percentage)
    all.push_back(std::string(kThreadPercentage) + "=" + std::to_string(thread_percentage(entry.thread_percentage)));
  for (const auto& [name, value] : entry.variables)
    if (!(by_percentage && name == kThreadPercentage)) all.push_back(name + "=" + value);
  std::string library_path = install::environment("LD_LIBRARY_PATH");
  if (!entry.simulated_directory.empty()) {
    all.push_back("HEADGATE_SIM_DIR=" + entry.simulated_directory);
    library_path = TRY(install::simulator_libraries()) + (library_path.empty() ? "" : ":" + library_path);
  } else if (const std::string given = install::environment("HEADGATE_SIM_DIR"); !given.empty()) {
    all.push_back("HEADGATE_SIM_DIR=" + given);
  }
  if (!library_path.empty()) all.push_back("LD_LIBRARY_PATH=" + library_path);
  const auto& log = config["defaults.log"];
  if (log.origin != "default" && install::environment("HEADGATE_LOG").empty())
    all.push_back("HEADGATE_LOG=" + log.value);
  return all;
}

}  // namespace headgate::cli
