#include "node/managed_shares.hpp"

#include "base/now.hpp"
#include "base/user_name.hpp"
#include "node/share_text.hpp"
#include "snapshot/gpu_name.hpp"
#include "tenancy/unattended.hpp"

namespace headgate::node {

Result<ManagedShares> ManagedShares::open(NodeOptions options, observe::EventLog& events) {
  std::vector<tenancy::Card> cards;
  for (const auto& gpu : options.gpus) cards.push_back({gpu.uuid, gpu.memory_total_bytes, snapshot::gpu_name(gpu)});
  auto store = TRY(tenancy::Store::open(options.state_file));
  tenancy::Adoption adoption;
  auto shares = TRY(
      tenancy::Shares::open({.runtime_dir = options.runtime_dir, .cards = std::move(cards), .reserve = options.reserve},
                            std::move(store), adoption));
  ManagedShares opened(std::move(shares), std::move(options), events);
  for (const auto& name : adoption.adopted)
    opened.tell("share.adopted", "info", name, 0, "the share " + name + " was found and continues");
  for (const auto& name : adoption.made_anew)
    opened.tell("share.restored", "info", name, 0, "the share " + name + " was created again from the database");
  for (const auto& name : adoption.unmanaged)
    opened.tell("share.unmanaged", "warn", name, 0,
                "the share " + name + " has pages in " + opened.options.runtime_dir +
                    " and is not in the database: a `headgate run` without headgated made it, or the database was "
                    "lost. It does not count as committed. To create it again, end its programs and remove " +
                    opened.options.runtime_dir + "/shares/" + name);
  for (const auto& [name, error] : adoption.refused)
    opened.tell("share.broken", "error", name, 0, error.message + (error.hint.empty() ? "" : " (" + error.hint + ")"));
  return opened;
}

Result<void> ManagedShares::make(tenancy::Share share) {
  share.created_at_s = lease_now_s();
  const std::string name = share.name, words = describe(share);
  const std::uint32_t owner = share.owner_uid;
  TRY(shares.create(std::move(share)));
  for (const Watch& watch : watches_)
    if (watch.made) watch.made(name);
  divide_unattended(name);
  tell("share.created", "info", name, owner, user_name(owner) + " created the share " + name + ": " + words);
  return {};
}

void ManagedShares::forget(const std::string& name) {
  if (arbitration != nullptr) arbitration->remove(name);
  for (const Watch& watch : watches_)
    if (watch.gone) watch.gone(name);
}

void ManagedShares::changed(const std::string& name) const {
  for (const Watch& watch : watches_)
    if (watch.changed) watch.changed(name);
}

void ManagedShares::divide_unattended(const std::vector<tenancy::DeviceShare>& devices) {
  for (const auto& device : devices)
    write_unattended(shares, device.uuid, [this](const std::string& share) { return processes_in(share) > 0; });
}

void ManagedShares::divide_unattended(const std::string& name) {
  if (const tenancy::LiveShare* const live = shares.find(name)) divide_unattended(live->share.devices);
}

void ManagedShares::divide_unattended() {
  std::vector<tenancy::DeviceShare> all;
  for (const auto& card : shares.node().cards) all.push_back({.uuid = card.uuid, .memory_limit_bytes = {}});
  divide_unattended(all);
}

void ManagedShares::tell(const std::string& kind, const std::string& severity, const std::string& share,
                         std::uint32_t uid, const std::string& text, std::optional<std::uint32_t> owner_uid) const {
  const auto live = shares.list().find(share);
  if (!owner_uid && live != shares.list().end()) owner_uid = live->second.share.owner_uid;
  events.add({.kind = kind, .severity = severity, .share = share, .uid = uid, .owner_uid = owner_uid, .text = text});
}

}  // namespace headgate::node
