#include "daemon/reload.hpp"

#include <algorithm>
#include <string_view>

namespace headgate::daemon {
namespace {

constexpr std::string_view kAtOnce[] = {"arbiter.policy",  "audit.policy",          "audit.exempt",
                                        "node.token_file", "node.streams_per_user", "node.shares_per_user"};

bool overridden(std::string_view key, const Options& options) {
  if (key.starts_with("defaults.")) return true;
  if (key == "node.listen") return !options.listen.empty();
  if (key == "zeusd.socket") return !options.zeusd_socket.empty();
  if (key == "cdi.dir") return !options.cdi_dir.empty();
  if (key == "node.nvml") return options.simulate.has_value();
  if (key == "sim.profile") return !options.simulate || !options.simulate->empty();
  return false;
}

std::string list(const std::vector<std::string>& keys) {
  std::string all;
  for (const auto& key : keys) all += (all.empty() ? "" : ", ") + key;
  return all;
}

}  // namespace

Changes changes(const config::Config& running, const config::Config& fresh, const Options& options) {
  Changes found;
  for (const auto& setting : fresh.settings) {
    if (setting.value == running[setting.key].value || overridden(setting.key, options)) continue;
    const bool at_once = std::ranges::find(kAtOnce, setting.key) != std::end(kAtOnce);
    (at_once ? found.applied : found.waiting).push_back(setting.key);
  }
  if (running.power_grants != fresh.power_grants) found.applied.emplace_back("power.grant");
  if (running.power_profiles != fresh.power_profiles) found.applied.emplace_back("power.profile");
  // Rows of [cards] that are gone.
  for (const auto& setting : running.settings) {
    const bool gone = fresh[setting.key].key.empty();
    if (gone && !setting.value.empty()) found.waiting.push_back(setting.key);
  }
  return found;
}

std::string describe(const Changes& changes) {
  std::string words = "the configuration was read again";
  if (changes.applied.empty() && changes.waiting.empty()) return words + "; nothing has changed";
  if (!changes.applied.empty()) words += "; in effect now: " + list(changes.applied);
  if (!changes.waiting.empty()) words += "; waiting for a restart: " + list(changes.waiting);
  return words;
}

config::Config applied_to(config::Config running, const config::Config& fresh, const Changes& changes) {
  for (auto& setting : running.settings) {
    const bool waits = std::ranges::find(changes.waiting, setting.key) != changes.waiting.end();
    if (!waits) setting = fresh[setting.key];
  }
  running.power_grants = fresh.power_grants;
  running.power_profiles = fresh.power_profiles;
  return running;
}

}  // namespace headgate::daemon
