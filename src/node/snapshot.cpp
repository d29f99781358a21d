// What the node adds to each snapshot: what its ledgers say, memory that is still held, and what only the node knows of
// its shares.
#include <algorithm>
#include <filesystem>

#include "base/now.hpp"
#include "base/saturating_math.hpp"
#include "base/units.hpp"
#include "base/user_name.hpp"
#include "guest/grant/gpu_throughput.hpp"
#include "guest/ledger/slot.hpp"
#include "node/node.hpp"
#include "node/processes.hpp"

namespace headgate::node {
namespace {

std::string in_a_line(const Error& error) { return error.message + (error.hint.empty() ? "" : "; " + error.hint); }

}  // namespace

// Returns 0 if one of its GPUs has never answered: what the share holds there may then be true.
std::uint64_t Node::largest_card_of(const tenancy::Share& share) const {
  std::uint64_t largest = 0;
  for (const auto& device : share.devices) {
    const auto card = card_bytes_.find(device.uuid);
    if (card == card_bytes_.end()) return 0;
    largest = std::max(largest, card->second);
  }
  return largest;
}

// Tenants can write anything into the usage page, but a damaged one spoils only their share's account. It is not used
// any more, and an event names the share and the processes that can have done it.
void Node::check_page(const std::string& name, tenancy::LiveShare& live, std::uint64_t now_ns) {
  tenancy::Pages& pages = *live.pages;
  const std::uint64_t grown = pages.cut_growth();
  if (!live.damage.empty()) return;
  std::string what =
      checks_[name].look(pages.policy(), pages.usage(), largest_card_of(live.share), static_cast<std::int64_t>(now_ns));
  if (what.empty()) what = live.accusation;
  if (grown > 0) what = "had grown to " + bytes_text(grown) + ", and was cut";
  if (pages.truncated()) what = "was cut short";
  if (what.empty()) return;
  std::string whose;
  std::uint32_t pid = 0, count = 0;
  if (tenants_ != nullptr) {
    tenants_->each([&](const tenancy::TenantProcess& tenant) {
      if (tenant.share != name) return;
      pid = tenant.process.pid;
      if (++count <= 8)
        whose += (whose.empty() ? "" : ", ") + std::to_string(pid) + " (" + tenant.process.command + ")";
    });
  }
  if (count > 8) whose += " and " + std::to_string(count - 8) + " more";
  live.damage = "the usage page of the share " + name + " " + what +
                ": no limiter writes that, so its figures are no longer to be trusted" +
                (whose.empty() ? "" : "; in it: process " + whose);
  events_->add({.kind = "share.damaged",
                .severity = "error",
                .share = name,
                .pid = count == 1 ? pid : 0,
                .uid = live.share.owner_uid,
                .owner_uid = live.share.owner_uid,
                .text = live.damage + "; end them, then remove and create the share again"});
}

// A damaged page is only looked at.
void Node::give_back_dead(const std::string& name, tenancy::LiveShare& live, std::size_t& asked) const {
  if (live.distrusted()) return;
  if (tenants_ != nullptr) tenants_->give_back_dead(name, live, asked);
  else ledger::reap_dead(live.pages->usage(), ledger::Remains::draining);
}

void Node::before_reading() {
  std::size_t asked = 0;
  // Before the reading, so that it can show as gone what has died by now.
  for (auto& [name, live] : shares_.list()) {
    if (live.pages != nullptr) give_back_dead(name, live, asked);
  }
  dead_process_memory_.look(shares_);
  node_pages_->begin();
}

void Node::after_reading(const observe::DriverMemory& memory) {
  for (const auto& [uuid, card] : memory.cards) card_bytes_[uuid] = card.total_bytes;
  dead_process_memory_.settle(shares_, memory);
  if (tenants_ != nullptr) node_pages_->tell(memory, shares_, *tenants_);
}

void Node::hand_ledgers(observe::JoinInput& input) {
  std::set<std::string> managed;
  std::size_t asked = 0;
  for (auto& [name, live] : shares_.list()) {
    managed.insert(name);
    if (live.pages == nullptr) {
      // Its tenants still have their descriptors.
      tenancy::cut_usage_file(shares_.directory(name));
      continue;
    }
    if (input.taken_ns != 0) check_page(name, live, input.taken_ns);
    give_back_dead(name, live, asked);
    input.ledgers.push_back(observe::read_ledger(live.pages->policy(), live.pages->usage()));
    input.ledgers.back().share.problem = live.damage;
  }
  // Shares of `headgate run` without the daemon are shown, and their dead reaped; nothing else is changed.
  std::error_code error;
  for (std::filesystem::directory_iterator at(options_.runtime_dir + "/shares", error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(".") || managed.contains(name)) continue;
    ledger::SharePages pages;
    const tenancy::SigbusScope survives;
    if (ledger::open_share(options_.runtime_dir.c_str(), name.c_str(), ledger::Access::owner, pages)) continue;
    ledger::reap_dead(*pages.usage, ledger::Remains::draining);
    input.ledgers.push_back(observe::read_ledger(*pages.policy, *pages.usage));
    ledger::close_pages(pages);
  }
  add_processes(input, tenants_, "/proc");
}

std::vector<RunInShare> Node::runs() const {
  std::vector<RunInShare> found;
  for (const auto& [name, live] : shares_.list())
    for (const tenancy::Run& run : live.runs) found.push_back({.share = name, .pid = run.pid});
  return found;
}

// Programs in time slices: processes with a context on the GPU, of shares of that isolation.
std::uint32_t Node::sliced_processes(const snapshot::Snapshot& snapshot, const std::string& uuid) const {
  return static_cast<std::uint32_t>(std::ranges::count_if(snapshot.processes, [&](const snapshot::Process& process) {
    const auto share = shares_.list().find(process.share);
    return share != shares_.list().end() && share->second.share.isolation == tenancy::Isolation::timeslice &&
           std::ranges::find(process.devices, uuid, &snapshot::ProcessDevice::uuid) != process.devices.end();
  }));
}

// Both kinds of programs have no turns: while there are any on a GPU, its policy is off.
void Node::follow_turns(snapshot::Snapshot& snapshot) {
  for (const snapshot::Gpu& gpu : snapshot.gpus) compute_modes_[gpu.uuid] = gpu.compute_mode;
  for (std::uint32_t g = 0; arbitration_ != nullptr && g < arbitration_->gpus().size(); ++g) {
    const std::string& uuid = arbitration_->gpus()[g];
    const auto gpu = std::ranges::find(snapshot.gpus, uuid, &snapshot::Gpu::uuid);
    if (gpu == snapshot.gpus.end()) continue;
    const std::string policy = policy_word(arbitration_->policy(g)), name = "GPU " + std::to_string(gpu->index);
    // While the driver's library is released the clients are not known, so what was stays. So it does where this is no
    // new snapshot.
    const bool known = snapshot.taken_ns != 0 && !snapshot.node.nvml_released;
    const auto follow = [&](MpsActivity& activity, std::uint32_t programs, const char* kind, const std::string& began,
                            const std::string& ended) {
      const auto news = !known ? MpsActivity::News::none : activity.look(uuid, programs, snapshot.taken_ns);
      if (news == MpsActivity::News::none) return;
      arbitration_->set_without_turns(g, mps_activity_.is_on(uuid) || slice_activity_.is_on(uuid));
      events_->add({.kind = kind,
                    .severity = "info",
                    .uuid = uuid,
                    .text = news == MpsActivity::News::began
                                ? began + ": its policy is off for as long, instead of " + policy
                                : ended + " any more: its policy is " + policy_word(arbitration_->policy_in_force(g))});
    };
    follow(mps_activity_, gpu->mps_clients, "gpu.mps",
           "programs of shares are clients of an MPS server on " + name + ", where their kernels run at once",
           "no program of a share is a client of an MPS server on " + name);
    follow(slice_activity_, sliced_processes(snapshot, uuid), "gpu.timeslice",
           "programs of shares of isolation timeslice have the driver's time slices on " + name,
           "no program of a share of isolation timeslice is on " + name);
    gpu->policy = policy;
    gpu->policy_from = shares_.gpu_policies().contains(gpu->uuid) ? "command" : "configuration";
    gpu->policy_in_force = policy_word(arbitration_->policy_in_force(g));
  }
}

// Only the observer's snapshots are samples; one made after an operation shows the figures of the last.
void Node::follow_promises(snapshot::Snapshot& snapshot) {
  if (arbitration_ == nullptr) return;
  if (snapshot.taken_ns == 0) return promises_.fill(snapshot);
  const auto& gpus = arbitration_->gpus();
  const auto wanted_ns = [&](const std::string& share, const std::string& uuid) -> std::int64_t {
    const auto gpu = std::ranges::find(gpus, uuid);
    return gpu == gpus.end() ? 0 : arbitration_->wanted_ns(share, static_cast<std::uint32_t>(gpu - gpus.begin()));
  };
  for (snapshot::Event& event : promises_.look(snapshot, wanted_ns)) events_->add(std::move(event));
}

void Node::finish(snapshot::Snapshot& snapshot) {
  follow_turns(snapshot);
  const std::int64_t now_s = lease_now_s();
  for (auto& gpu : snapshot.gpus) {
    const tenancy::Card card{.uuid = gpu.uuid, .memory_total_bytes = gpu.memory_total_bytes};
    // A GPU that did not answer at the start is not committed.
    const auto& cards = shares_.node().cards;
    const bool for_sale = std::ranges::find(cards, gpu.uuid, &tenancy::Card::uuid) != cards.end();
    const tenancy::Room room = for_sale ? shares_.room_on(card) : tenancy::Room{};
    gpu.memory_uncommitted_bytes = room.memory_bytes;
    // Counted as admission and `headgate free` do: includes what programs hold above a lowered limit, but no share that
    // programs without the daemon left behind. Without overcommitted shares it is never more than the card.
    const tenancy::Committed committed = shares_.committed_on(card);
    gpu.memory_committed_bytes = committed.memory_bytes;
    for (const auto& [name, managed] : shares_.list()) {
      for (const tenancy::DeviceShare& device : managed.share.devices)
        if (managed.share.overcommit && device.uuid == gpu.uuid)
          gpu.memory_committed_bytes =
              saturating_add(gpu.memory_committed_bytes, device.memory_limit_bytes.value_or(0));
    }
    gpu.compute_uncommitted_ratio = room.guarantee_ppm / 1e6;
    // The ledgers do not say what a share of class latency has committed.
    gpu.compute_committed_ratio = static_cast<double>(committed.guarantee_ppm) / 1e6;
    gpu.half_precision_tflops = fp16_tflops(gpu.model, options_.cards);
  }
  for (auto& share : snapshot.shares) {
    share.owner = user_name(share.owner_uid);
    const auto found = shares_.list().find(share.name);
    if (found == shares_.list().end()) continue;
    const tenancy::Share& kept = found->second.share;
    for (auto& device : share.devices) device.context_bytes = node_pages_->context_bytes(device.uuid);
    share.created = !kept.until_empty;
    share.gang = kept.gang;
    share.isolation = tenancy::isolation_word(kept.isolation);
    share.owner_uid = kept.owner_uid;
    share.owner = user_name(kept.owner_uid);
    share.created_unix_ns = static_cast<std::uint64_t>(kept.created_at_s) * 1'000'000'000;
    if (kept.freeze_after)
      share.freeze_after_ns = static_cast<std::uint64_t>(kept.freeze_after->count()) * 1'000'000'000;
    if (kept.idle_notice) share.idle_notice_ns = static_cast<std::uint64_t>(kept.idle_notice->count()) * 1'000'000'000;
    share.overcommit = kept.overcommit;
    share.oversubscribe = kept.oversubscribe;
    share.everyone = kept.everyone;
    share.uids = kept.users;
    share.gids = kept.groups;
    for (const std::uint32_t uid : kept.users) share.users.push_back(user_name(uid));
    for (const std::uint32_t gid : kept.groups) share.groups.push_back(group_name(gid));
    if (const auto end = tenancy::ends_at_s(kept))
      share.ttl_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(0, *end - now_s)) * 1'000'000'000;
    share.expired = tenancy::has_ended(kept, now_s);
    if (const auto trouble = shares_.trouble_of(found->second)) {
      share.state = "broken";
      share.problem = in_a_line(*trouble);
      if (told_broken_.insert(share.name).second) tell("share.broken", "error", share.name, 0, share.problem);
    } else if (told_broken_.erase(share.name) > 0) {
      tell("share.adopted", "info", share.name, 0, "the share " + share.name + " has its pages again and goes on");
    }
  }
  follow_promises(snapshot);
  // Shares without usable pages are shown too.
  for (const auto& [name, live] : shares_.list()) {
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
  std::ranges::sort(snapshot.shares, {}, &snapshot::Share::name);
  snapshot.node.shares = static_cast<std::uint32_t>(snapshot.shares.size());
  show_queue(snapshot);
}

}  // namespace headgate::node
