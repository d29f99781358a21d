#include "daemon/configuration_reload.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/service_notify.hpp"
#include "daemon/check.hpp"
#include "daemon/journal.hpp"
#include "daemon/settings.hpp"

namespace headgate::daemon {

void ConfigurationReload::run() {
  tell_service_manager(ServiceState::reloading);
  const auto taken = take();
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
    context_.events.add({.kind = "config.refused",
                         .severity = "error",
                         .owner_uid = ::geteuid(),
                         .text = "the configuration has a mistake, so the old one stays: " + mistake});
  } else context_.events.add({.kind = "config.read", .severity = waits ? "warn" : "info", .text = outcome});
  tell_service_manager(ServiceState::ready, outcome);
}

Result<Changes> ConfigurationReload::take() {
  config::Config& running = context_.config;
  const Options& options = context_.options;
  const config::Config fresh = TRY(read_configuration(options));
  api::Access access = *context_.access.now();
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
  if (running["arbiter.policy"].value != former) node_.set_policies();
  observer_.set_audit(policy, exempt_programs(running));
  if (auto allowed = power_.allow(running); !allowed) warn(allowed.error().message);
  node_.node().managed.options.shares_per_user = running.number("node.shares_per_user");
  context_.access.set(std::move(access));
  if (other_token) listener_.hang_up_tcp();
  return changed;
}

}  // namespace headgate::daemon
