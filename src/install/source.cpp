#include "install/source.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/joined.hpp"
#include "config/profile_toml.hpp"
#include "install/paths.hpp"
#include "nvml/library.hpp"
#include "observe/gpus.hpp"
#include "sim/node.hpp"
#include "sim/profile.hpp"
#include "sim/truth.hpp"

namespace headgate::install {
namespace {

namespace fs = std::filesystem;

Result<sim::Profile> profile_named(const std::string& name) {
  if (const sim::Profile* found = sim::find_profile(name)) return *found;
  if (name.contains('/') || name.ends_with(".toml")) return config::load_profile(name);
  return fail(ErrorCode::usage, "--sim=" + name + " names no profile",
              "accepted: " + profile_names(", ") + ", or the path of a .toml file");
}

bool has_node(const std::string& directory) { return ::access((directory + "/node").c_str(), F_OK) == 0; }

Result<Source> simulated_source(const std::string& directory) {
  return Source{TRY(simulator_libraries()) + "/libnvidia-ml.so.1", directory};
}

}  // namespace

std::string profile_names(std::string_view separator) {
  return joined(sim::built_in_profiles(), separator, &sim::Profile::name);
}

Result<std::string> simulated_node(const std::string& profile, const std::string& usual_profile) {
  const std::string directory = TRY(sim_directory(profile));
  if (profile.empty() && has_node(directory)) {
    // A node of another headgate version at the default path is recreated; one that the user named stays as it is.
    const bool named = directory == environment("HEADGATE_SIM_DIR");
    if (named || sim::Node::open_existing(directory)) return directory;
  }
  const sim::Profile wanted = TRY(profile_named(profile.empty() ? usual_profile : profile));
  if (profile.empty() && has_node(directory)) {
    TRY(sim::recreate_node(directory, wanted));
    return directory;
  }
  TRY(make_private_directory(directory));
  TRY(sim::create_node(directory, wanted));
  return directory;
}

Result<Source> source_for(const std::optional<std::string>& simulate, const std::string& usual_profile) {
  if (!simulate) return Source{};
  return simulated_source(TRY(simulated_node(*simulate, usual_profile)));
}

Result<void> check_source(const std::optional<std::string>& simulate, const std::string& usual_profile) {
  if (!simulate) return {};
  TRY(simulator_libraries());
  if (simulate->empty() && has_node(TRY(sim_directory(*simulate)))) return {};
  TRY(profile_named(simulate->empty() ? usual_profile : *simulate));
  return {};
}

Result<void> let_all_use(const std::string& simulated_directory) {
  // A node named by HEADGATE_SIM_DIR keeps the permissions its creator chose.
  if (simulated_directory == environment("HEADGATE_SIM_DIR")) return {};
  // RUNTIME/sim/NAME: opens the two directories above it, which were created for us alone.
  std::string above = simulated_directory;
  for (int up = 0; up < 2; ++up) {
    above.resize(above.rfind('/'));
    struct stat facts{};
    if (::stat(above.c_str(), &facts) != 0 || ::chmod(above.c_str(), (facts.st_mode & 07777) | 0011) != 0)
      return fail_errno("cannot let others pass through " + above, errno);
  }
  return sim::open_to_all(simulated_directory);
}

std::vector<std::string> simulated_nodes() {
  std::vector<std::string> all;
  const auto base = runtime_dir();
  std::error_code error;
  for (fs::directory_iterator at(base ? *base + "/sim" : "", error), end; !error && at != end; at.increment(error))
    if (fs::exists(at->path() / "node", error)) all.push_back(at->path().string());
  std::ranges::sort(all);
  return all;
}

std::optional<Source> simulated_source_with(const std::vector<std::string>& uuids) {
  const auto has_one_of_them = [&uuids](const std::string& directory) {
    const auto truth = sim::read_truth(directory);
    return truth && std::ranges::any_of(truth->devices, [&uuids](const auto& device) {
             return std::ranges::find(uuids, device.uuid) != uuids.end();
           });
  };
  const auto nodes =
      uuids.empty() || !environment("HEADGATE_SIM_DIR").empty() ? std::vector<std::string>{} : simulated_nodes();
  const auto theirs = std::ranges::find_if(nodes, has_one_of_them);
  if (theirs == nodes.end()) return std::nullopt;
  auto source = simulated_source(*theirs);
  return source ? std::optional(std::move(*source)) : std::nullopt;
}

Result<Gpus> gpus_to_view(const std::optional<std::string>& simulate, const std::string& usual_profile) {
  auto gpus = read_gpus(TRY(source_for(simulate, usual_profile)));
  if (gpus || simulate) return gpus;
  const auto directory = sim_directory("");
  if (!directory || !has_node(*directory)) return gpus;
  return read_gpus(TRY(simulated_source(*directory)));
}

Result<Gpus> read_gpus(const Source& source) {
  if (!source.simulated_directory.empty()) ::setenv("HEADGATE_SIM_DIR", source.simulated_directory.c_str(), 1);
  const auto nvml = TRY(nvml::Library::open(source.library));
  observe::DriverSnapshot driver = TRY(observe::read_driver(nvml, 0));
  for (const snapshot::Gpu& gpu : driver.gpus) {
    // Without its UUID, a GPU cannot be assigned to a share.
    if (gpu.uuid.empty()) return fail(ErrorCode::unreachable, "GPU " + std::to_string(gpu.index) + " " + gpu.model);
  }
  const bool simulated = !source.simulated_directory.empty() || nvml.path().ends_with("/sim/libnvidia-ml.so.1");
  return Gpus{std::move(driver.gpus), driver.driver_version, simulated};
}

}  // namespace headgate::install
