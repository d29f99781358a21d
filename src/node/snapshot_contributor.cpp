#include "node/snapshot_contributor.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/now.hpp"
#include "base/saturating_math.hpp"
#include "base/user_name.hpp"
#include "guest/grant/gpu_throughput.hpp"
#include "guest/ledger/slot.hpp"
#include "node/processes.hpp"
#include "node/share_request.hpp"
#include "observe/ledgers.hpp"

namespace headgate::node {
namespace {

std::string in_a_line(const Error& error) { return error.message + (error.hint.empty() ? "" : "; " + error.hint); }

std::uint64_t ns_of(std::int64_t seconds) { return static_cast<std::uint64_t>(seconds) * 1'000'000'000; }

std::optional<std::uint64_t> ns_of(const std::optional<std::chrono::seconds>& time) {
  return time ? std::optional(ns_of(time->count())) : std::nullopt;
}

// Shows an attribute that the share only keeps, if snapshots have a field for it.
void show(const snapshot::ShareAttribute& attribute, const tenancy::Share& kept, snapshot::Share& share) {
  if (const auto* to = std::get_if<std::optional<std::uint64_t> snapshot::Share::*>(&attribute.shown))
    for (const tenancy::TimeAttribute& time : tenancy::kTimeAttributes)
      if (time.key == attribute.key) share.** to = ns_of(kept.*time.kept);
  if (const auto* to = std::get_if<bool snapshot::Share::*>(&attribute.shown))
    for (const tenancy::FlagAttribute& flag : tenancy::kFlagAttributes)
      if (flag.key == attribute.key) share.** to = kept.*flag.kept;
}

}  // namespace

SnapshotContributor::SnapshotContributor(ManagedShares& managed, GpuPolicies& policies, const AdmissionQueue& queue,
                                         ShareReporter& reporter)
    : managed_(managed), policies_(policies), queue_(queue), reporter_(reporter), damage_(managed) {
  managed.watch({.made = {},
                 .gone = [this](const std::string& name) { damage_.forget(name), node_pages_.forget(name); },
                 .changed = {}});
}

// A damaged page is only looked at. `asked`: see Processes::give_back_dead().
void SnapshotContributor::give_back_dead(const std::string& name, tenancy::LiveShare& live, std::size_t& asked) const {
  if (live.distrusted()) return;
  if (managed_.tenants != nullptr) managed_.tenants->give_back_dead(name, live, asked);
  else ledger::reap_dead(live.pages->usage(), ledger::Remains::draining);
}

void SnapshotContributor::before_reading() {
  std::size_t asked = 0;
  // Before the reading, so that it can show as gone what has died by now.
  for (auto& [name, live] : managed_.shares.list())
    if (live.pages != nullptr) give_back_dead(name, live, asked);
  dead_process_memory_.look(managed_.shares);
  node_pages_.begin();
}

void SnapshotContributor::after_reading(const observe::DriverMemory& memory) {
  for (const auto& [uuid, card] : memory.cards) damage_.take_card(uuid, card.total_bytes);
  dead_process_memory_.settle(managed_.shares, memory);
  if (managed_.tenants != nullptr) node_pages_.tell(memory, managed_.shares, *managed_.tenants);
}

void SnapshotContributor::add_ledgers(observe::JoinInput& input) {
  const std::string& runtime_dir = managed_.options.runtime_dir;
  std::set<std::string> managed;
  std::size_t asked = 0;
  for (auto& [name, live] : managed_.shares.list()) {
    managed.insert(name);
    if (live.pages == nullptr) {
      // Its tenants still have their descriptors.
      tenancy::cut_usage_file(managed_.shares.directory(name));
      continue;
    }
    if (input.taken_ns != 0) damage_.look(name, live, input.taken_ns);
    give_back_dead(name, live, asked);
    input.ledgers.push_back(observe::read_ledger(live.pages->policy(), live.pages->usage()));
    input.ledgers.back().share.problem = live.damage;
  }
  // Shares of `headgate run` without the daemon are shown, and their dead reaped; nothing else is changed.
  std::error_code error;
  for (std::filesystem::directory_iterator at(runtime_dir + "/shares", error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(".") || managed.contains(name)) continue;
    ledger::SharePages pages;
    const tenancy::SigbusScope survives;
    if (ledger::open_share(runtime_dir.c_str(), name.c_str(), ledger::Access::owner, pages)) continue;
    ledger::reap_dead(*pages.usage, ledger::Remains::draining);
    input.ledgers.push_back(observe::read_ledger(*pages.policy, *pages.usage));
    ledger::close_pages(pages);
  }
  add_processes(input, managed_.tenants, "/proc");
}

// Only the observer's snapshots are samples; one made after an operation shows the figures of the last.
void SnapshotContributor::follow_promises(snapshot::Snapshot& snapshot) {
  const Arbitration* const arbitration = managed_.arbitration;
  if (arbitration == nullptr) return;
  if (snapshot.taken_ns == 0) return promises_.fill(snapshot);
  const auto& gpus = arbitration->gpus();
  const auto wanted_ns = [&](const std::string& share, const std::string& uuid) -> std::int64_t {
    const auto gpu = std::ranges::find(gpus, uuid);
    return gpu == gpus.end() ? 0 : arbitration->wanted_ns(share, static_cast<std::uint32_t>(gpu - gpus.begin()));
  };
  for (snapshot::Event& event : promises_.look(snapshot, wanted_ns)) managed_.events.add(std::move(event));
}

void SnapshotContributor::fill(snapshot::Gpu& gpu) const {
  const tenancy::Shares& shares = managed_.shares;
  const tenancy::Card card{.uuid = gpu.uuid, .memory_total_bytes = gpu.memory_total_bytes};
  // A GPU that did not answer at the start is not committed.
  const auto& cards = shares.node().cards;
  const bool for_sale = std::ranges::find(cards, gpu.uuid, &tenancy::Card::uuid) != cards.end();
  const tenancy::Room room = for_sale ? shares.room_on(card) : tenancy::Room{};
  gpu.memory_uncommitted_bytes = room.memory_bytes;
  // Counted as admission and `headgate free` do: includes what programs hold above a lowered limit, but no share that
  // programs without the daemon left behind. Without overcommitted shares it is never more than the card.
  const tenancy::Committed committed = shares.committed_on(card);
  gpu.memory_committed_bytes = committed.memory_bytes;
  for (const auto& [name, live] : shares.list())
    for (const tenancy::DeviceShare& device : live.share.devices)
      if (live.share.overcommit && device.uuid == gpu.uuid)
        gpu.memory_committed_bytes = saturating_add(gpu.memory_committed_bytes, device.memory_limit_bytes.value_or(0));
  gpu.compute_uncommitted_ratio = room.guarantee_ppm / 1e6;
  // The ledgers do not say what a share of class latency has committed.
  gpu.compute_committed_ratio = static_cast<double>(committed.guarantee_ppm) / 1e6;
  gpu.half_precision_tflops = fp16_tflops(gpu.model, managed_.options.cards);
}

void SnapshotContributor::fill(snapshot::Share& share, std::int64_t now_s) {
  share.owner = user_name(share.owner_uid);
  const auto found = managed_.shares.list().find(share.name);
  if (found == managed_.shares.list().end()) return;
  const tenancy::Share& kept = found->second.share;
  for (auto& device : share.devices) device.context_bytes = node_pages_.context_bytes(device.uuid);
  share.created = !kept.until_empty;
  share.gang = kept.gang;
  share.isolation = tenancy::isolation_word(kept.isolation);
  if (kept.isolation == tenancy::Isolation::mps)
    share.mps_users = managed_.options.mps_for_all.contains(kept.devices.front().uuid) ? "all" : "owner";
  share.owner_uid = kept.owner_uid;
  share.owner = user_name(kept.owner_uid);
  share.created_unix_ns = ns_of(kept.created_at_s);
  ShareRequest any;
  snapshot::each_attribute(
      any, [&](const snapshot::ShareAttribute& attribute, const auto&) { show(attribute, kept, share); });
  share.everyone = kept.everyone;
  share.uids = kept.users;
  share.gids = kept.groups;
  for (const std::uint32_t uid : kept.users) share.users.push_back(user_name(uid));
  for (const std::uint32_t gid : kept.groups) share.groups.push_back(group_name(gid));
  if (const auto end = tenancy::ends_at_s(kept)) share.ttl_ns = ns_of(std::max<std::int64_t>(0, *end - now_s));
  share.expired = tenancy::has_ended(kept, now_s);
  const auto trouble = managed_.shares.trouble_of(found->second);
  if (trouble) {
    share.state = "broken";
    share.problem = in_a_line(*trouble);
  }
  reporter_.take_trouble(share.name, trouble ? share.problem : "");
}

// Shares without usable pages are shown too.
void SnapshotContributor::add_broken(snapshot::Snapshot& snapshot) const {
  for (const auto& [name, live] : managed_.shares.list()) {
    if (live.pages != nullptr) continue;
    snapshot::Share broken;
    broken.name = name;
    broken.owner_uid = live.share.owner_uid;
    broken.owner = user_name(live.share.owner_uid);
    broken.uids = live.share.users;
    broken.gids = live.share.groups;
    broken.state = "broken";
    broken.level = "observe";
    broken.created = !live.share.until_empty;
    broken.problem = live.broken ? in_a_line(*live.broken) : "its pages cannot be used";
    snapshot.shares.push_back(std::move(broken));
  }
}

void SnapshotContributor::finish(snapshot::Snapshot& snapshot) {
  policies_.follow(snapshot);
  for (auto& gpu : snapshot.gpus) fill(gpu);
  const std::int64_t now_s = lease_now_s();
  for (auto& share : snapshot.shares) fill(share, now_s);
  follow_promises(snapshot);
  add_broken(snapshot);
  std::ranges::sort(snapshot.shares, {}, &snapshot::Share::name);
  snapshot.node.shares = static_cast<std::uint32_t>(snapshot.shares.size());
  queue_.show(snapshot);
}

}  // namespace headgate::node
