#include "daemon/node_host.hpp"

#include <filesystem>

#include "daemon/settings.hpp"
#include "nvml/library.hpp"
#include "observe/gpus.hpp"

namespace headgate::daemon {
namespace {

// The node has run before, but its database of shares and quotas is missing.
snapshot::Event store_lost_event(const std::string& path) {
  return {
      .kind = "store.lost",
      .severity = "error",
      .text = "the database " + path +
              " was missing, and an empty one was created: quotas, and shares without pages, are lost unless a backup "
              "is restored (docs/backup.md)"};
}

}  // namespace

Result<std::unique_ptr<NodeHost>> NodeHost::open(Context& context) {
  std::unique_ptr<NodeHost> host(new NodeHost(context));
  const config::Config& config = context.config;
  const auto driver = TRY(nvml::Library::open(context.source.library));
  host->simulated_ = !context.source.simulated_directory.empty() || is_simulator(driver.path());
  if (!host->simulated_) TRY(can_see_programs(config, driver.path()));
  const auto snapshot = TRY(observe::read_driver(driver, 0));
  const bool ran_before = context.events.kept() > 0, is_new = !std::filesystem::exists(context.places.state_file);
  host->node_ = TRY(node::Node::open({.runtime_dir = context.places.runtime_dir,
                                      .state_file = context.places.state_file,
                                      .simulated_dir = context.source.simulated_directory,
                                      .reserve = reserve_of(config),
                                      .gpus = snapshot.gpus,
                                      .cards = config.cards(),
                                      .mps_exclusive = config["mps.exclusive"].value == "true",
                                      .shares_per_user = config.number("node.shares_per_user")},
                                     context.events));
  if (ran_before && is_new) context.events.add(store_lost_event(context.places.state_file));
  for (const auto& [uuid, text] : unsellable(config, snapshot.gpus))
    context.events.add({.kind = "node.reserve", .severity = "warn", .uuid = uuid, .text = text});
  return host;
}

Result<void> NodeHost::arbitrate(node::Arbitration::Asked rung) {
  std::vector<std::string> uuids;
  for (const auto& gpu : node_->managed.options.gpus) uuids.push_back(gpu.uuid);
  arbitration_.emplace(std::move(uuids), [this, rung = std::move(rung)](const std::string& share, ledger::Ring what) {
    context_.loop.post([rung, share, what] { rung(share, what); });
  });
  node_->managed.arbitration = &*arbitration_;
  set_policies();
  return arbitration_->start();
}

void NodeHost::set_policies() {
  if (const auto policy = node::parse_policy(context_.config["arbiter.policy"].value))
    node_->policies.set_usual(*policy);
}

std::optional<std::uint32_t> NodeHost::owner_of(const std::string& share) {
  const tenancy::LiveShare* const live = node_->shares().find(share);
  return live == nullptr ? std::nullopt : std::optional(live->share.owner_uid);
}

}  // namespace headgate::daemon
