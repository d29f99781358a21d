#include "daemon/reload.hpp"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/joined.hpp"
#include "base/service_notify.hpp"
#include "daemon/journal.hpp"
#include "daemon/settings.hpp"

namespace headgate::daemon {
namespace {

struct Changes {
  std::vector<std::string> applied;  // at once
  std::vector<std::string> waiting;  // for the next start
};

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

// Returns how `fresh` differs from `running`, which is in effect. Leaves out keys that are not the daemon's
// (defaults.*: the command's), or that its command line overrides.
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

// "the configuration was read again; in effect now: audit.policy; waiting for a restart: node.reserve, metrics.file".
std::string describe(const Changes& changes) {
  std::string words = "the configuration was read again";
  if (changes.applied.empty() && changes.waiting.empty()) return words + "; nothing has changed";
  if (!changes.applied.empty()) words += "; in effect now: " + joined(changes.applied, ", ");
  if (!changes.waiting.empty()) words += "; waiting for a restart: " + joined(changes.waiting, ", ");
  return words;
}

// Returns `running` with what is applied of `fresh`: what is then in effect, to compare with the next reading.
config::Config applied_to(config::Config running, const config::Config& fresh, const Changes& changes) {
  for (auto& setting : running.settings) {
    const bool waits = std::ranges::find(changes.waiting, setting.key) != changes.waiting.end();
    if (!waits) setting = fresh[setting.key];
  }
  running.power_grants = fresh.power_grants;
  running.power_profiles = fresh.power_profiles;
  return running;
}

// All of it is taken over, or nothing.
Result<Changes> take(Context& context, NodeHost& node, NodeObserver& observer, PowerControl& power,
                     ControlListener& listener) {
  config::Config& running = context.config;
  const Options& options = context.options;
  const config::Config fresh = TRY(read_configuration(options));
  api::Access access = *context.access.now();
  const auto former_token = std::exchange(access.token, TRY(token(fresh)));
  const bool other_token = access.token != former_token;
  access.streams_per_user = fresh.number("node.streams_per_user");
  // Check now what only a start reads, so that the next start does not fail by it.
  TRY(is_sound(fresh, options));
  // Check the address it listens at now, which may differ from the next start's.
  TRY(tcp_address(running, options, access.token.has_value()));
  const auto policy = TRY(node::parse_audit_policy(fresh["audit.policy"].value));

  Changes changed = changes(running, fresh, options);
  // The same file may hold another token.
  if (other_token && std::ranges::find(changed.applied, "node.token_file") == changed.applied.end())
    changed.applied.emplace_back("node.token_file");
  const std::string former = running["arbiter.policy"].value;
  running = applied_to(std::move(running), fresh, changed);
  if (running["arbiter.policy"].value != former) node.set_policies();
  observer.set_audit(policy, exempt_programs(running));
  if (auto allowed = power.allow(running); !allowed) warn(allowed.error().message);
  node.node().managed.options.shares_per_user = running.number("node.shares_per_user");
  context.access.set(std::move(access));
  if (other_token) listener.hang_up_tcp();
  return changed;
}

}  // namespace

void reload_configuration(Context& context, NodeHost& node, NodeObserver& observer, PowerControl& power,
                          ControlListener& listener) {
  tell_service_manager(ServiceState::reloading);
  const auto taken = take(context, node, observer, power, listener);
  std::string outcome = taken ? describe(*taken) : "the old configuration stays: " + taken.error().message;
  const bool waits = taken && !taken->waiting.empty();
  journal(!taken  ? JournalLevel::error
          : waits ? JournalLevel::warning
                  : JournalLevel::info,
          outcome + (taken || taken.error().hint.empty() ? "" : " (" + taken.error().hint + ")"));
  // Details of the node's files are for its administrators only.
  if (!taken) {
    std::string mistake = taken.error().message;
    std::ranges::replace(mistake, '\n', ' ');
    context.events.add({.kind = "config.refused",
                        .severity = "error",
                        .owner_uid = ::geteuid(),
                        .text = "the configuration has a mistake, so the old one stays: " + mistake});
  } else context.events.add({.kind = "config.read", .severity = waits ? "warn" : "info", .text = outcome});
  tell_service_manager(ServiceState::ready, outcome);
}

}  // namespace headgate::daemon
