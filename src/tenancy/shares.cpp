#include "tenancy/shares.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>

#include "base/unique_fd.hpp"
#include "guest/ledger/registration.hpp"
#include "guest/ledger/slot.hpp"
#include "tenancy/share_pages.hpp"

namespace headgate::tenancy {
namespace {

bool same_devices(const Share& a, const Share& b) {
  return std::ranges::is_permutation(a.devices, b.devices, {}, &DeviceShare::uuid, &DeviceShare::uuid);
}

bool covers(const ledger::PolicyPage& policy, const ledger::ShareGrant& grant) {
  if (policy.device_count != grant.device_count) return false;
  return std::all_of(grant.devices, grant.devices + grant.device_count, [&](const ledger::DeviceGrant& device) {
    return ledger::find_device(policy, device.uuid) != ledger::kMaxDevices;
  });
}

// Returns whether the pages hold something that we do not read: another version's, or not a page at all.
bool is_strange(const ledger::PageFault& fault) {
  return fault.error >= ledger::PageError::truncated && fault.error <= ledger::PageError::bad_slot_count;
}

bool missing(const ledger::PageFault& fault) {
  return fault.error == ledger::PageError::not_found || fault.error == ledger::PageError::no_runtime_directory;
}

}  // namespace

Result<Shares> Shares::open(Node node, Store store, Adoption& adoption) {
  RuntimeDirectory runtime = TRY(RuntimeDirectory::open(node.runtime_dir));
  Shares shares(std::move(node), std::move(runtime), std::move(store));
  shares.quotas_ = TRY(shares.store_.quotas());
  shares.gpu_policies_ = TRY(shares.store_.gpu_policies());
  auto runs = TRY(shares.store_.runs());
  for (Share& share : TRY(shares.store_.shares())) {
    const std::string name = share.name;
    if (auto good = shares.adopt(std::move(share), adoption); !good) adoption.refused.emplace_back(name, good.error());
    if (LiveShare* const live = shares.find(name)) live->runs = std::move(runs[name]);
  }
  adoption.unmanaged = shares.runtime_.sweep();
  std::erase_if(adoption.unmanaged, [&](const std::string& name) { return shares.shares_.contains(name); });
  return shares;
}

// A share that cannot be used still counts: its processes may hold what was committed to them.
Result<void> Shares::adopt(Share share, Adoption& adoption) {
  const std::string name = share.name;
  LiveShare& live = shares_[name];
  live.share = std::move(share);
  auto adopted = adopt_pages(live, adoption);
  if (LiveShare* const still = adopted ? nullptr : find(name)) still->broken = adopted.error();
  return adopted;
}

// If the share's removal was cut off, removes its row instead.
Result<void> Shares::adopt_pages(LiveShare& live, Adoption& adoption) {
  const std::string name = live.share.name;
  const ledger::ShareGrant grant = TRY(to_grant(live.share));
  const bool removal = TRY(store_.removal_begun(name));
  ledger::SharePages pages;
  const SigbusScope survives;
  cut_usage_file(directory(name));
  ledger::PageFault fault = ledger::open_share(node_.runtime_dir.c_str(), name.c_str(), ledger::Access::owner, pages);
  const bool anew = missing(fault);
  if (removal && anew) {
    shares_.erase(name);
    return store_.remove_share(name);
  }
  if (anew) fault = ledger::create_share(node_.runtime_dir.c_str(), grant, ledger::Access::owner, pages);
  if (fault) return std::unexpected(page_error(fault, node_.runtime_dir, name));
  auto held = TRY(runtime_.hold(name, pages));
  if (removal) TRY(store_.note_removal(name, false));
  if (!covers(held->policy(), grant)) {
    return fail(ErrorCode::failed,
                "the share '" + name + "' is stored with other GPUs than its pages in " + directory(name) + " have",
                "end its processes and remove that directory; the next start makes a new one");
  }
  // A change that was cut off between page and row was never confirmed: the row stands.
  TRY(apply_limits(grant, *held, node_.runtime_dir));
  apply_waiting(live.share, *held);
  TRY(runtime_.tell_fail_policy(name, live.share.fail_policy));
  live.said = TRY(store_.command_of(name));
  // Pages that drain without a command to do so had their time over: a restart does not open them before the clock has
  // been checked.
  live.time_over = !anew && ledger::is_draining(held->policy()) && !ledger::says(live.said, ledger::Command::drain);
  ledger::set_command(held->policy(), command_in_force(live.said, live.time_over));
  live.generation = held->policy().generation;
  live.pages = std::move(held);
  live.committed_before = committed_by_account(live, node_.cards, node_.reserve);
  (anew ? adoption.made_anew : adoption.adopted).push_back(name);
  return {};
}

std::vector<Share> Shares::rows() const {
  std::vector<Share> all;
  all.reserve(shares_.size());
  for (const auto& [name, live] : shares_) all.push_back(live.share);
  return all;
}

std::vector<Excess> Shares::past_limits() const {
  std::vector<Excess> all;
  for (const auto& [name, live] : shares_) {
    for (Excess& excess : tenancy::past_limits(live.share, live, live.committed_before))
      all.push_back(std::move(excess));
  }
  return all;
}

Room Shares::room_on(const Card& card) const {
  return with_books([&](const Books& books) { return tenancy::room_on(card, books); });
}

Committed Shares::committed_on(const Card& card) const {
  return with_books([&](const Books& books) { return tenancy::committed_on(card, books); });
}

Result<void> Shares::create(Share share) {
  const ledger::ShareGrant grant = TRY(to_grant(share));
  if (shares_.contains(share.name)) {
    return fail(ErrorCode::conflict, "there is a share '" + share.name + "' already",
                "'headgate share set' changes it");
  }
  TRY(with_books([&](const Books& books) { return admit(share, books); }));
  page_users_.erase(share.name);
  // Store the row first: if killed between the two, the next start makes the pages and never finds half a share.
  TRY(store_.put(share));
  const auto undo = [&](Error error) -> Result<void> {
    if (auto removed = store_.remove_share(share.name); !removed)
      error.message += "; and its row stays: " + removed.error().message;
    return std::unexpected(std::move(error));
  };
  ledger::SharePages pages;
  const SigbusScope survives;
  if (const auto bad = ledger::create_share(node_.runtime_dir.c_str(), grant, ledger::Access::owner, pages))
    return undo(page_error(bad, node_.runtime_dir, share.name));
  auto held = runtime_.hold(share.name, pages);
  if (auto told = runtime_.tell_fail_policy(share.name, share.fail_policy); held && !told)
    held = std::unexpected(told.error());
  if (!held) {
    bool removed = false;
    (void)ledger::remove_if_empty(node_.runtime_dir.c_str(), share.name.c_str(), removed);
    return undo(held.error());
  }
  apply_waiting(share, **held);
  LiveShare live;
  live.generation = (*held)->policy().generation;
  live.pages = std::move(*held);
  live.share = std::move(share);
  const std::string name = live.share.name;
  shares_.emplace(name, std::move(live));
  return {};
}

Result<LiveShare*> Shares::usable(const std::string& name) {
  LiveShare* live = find(name);
  if (live == nullptr)
    return fail(ErrorCode::not_found, "there is no share '" + escape_untrusted(name) + "'",
                "'headgate share ls' lists them");
  if (auto trouble = trouble_of(*live)) return std::unexpected(std::move(*trouble));
  if (live->pages->truncated()) {
    return fail(
        ErrorCode::failed,
        "the share '" + name + "': one of its processes has shortened the usage page, so nothing in it can be trusted",
        "end its processes, then remove and create it again");
  }
  return live;
}

Result<void> Shares::may_become(const LiveShare& live, const Share& wanted) const {
  const auto stays = [&](const char* what) {
    return fail(ErrorCode::usage,
                "the " + std::string(what) + " of the share '" + wanted.name + "' cannot be changed while it exists",
                "create another share");
  };
  if (!same_devices(wanted, live.share)) return stays("GPUs");
  if (wanted.owner_uid != live.share.owner_uid) return stays("owner");
  if (wanted.fail_policy != live.share.fail_policy) return stays("fail policy");
  if (wanted.gang != live.share.gang) return stays("gang");
  if (wanted.isolation != live.share.isolation) return stays("isolation");
  return {};
}

// Checks whether each share fits beside all others, taking shares that change together with their new values.
Result<void> Shares::admit_together(std::span<const Share> wanted) const {
  std::vector<Share> all = rows();
  std::vector<Excess> past = past_limits();
  for (const Share& share : wanted) {
    const LiveShare& live = shares_.at(share.name);
    const CommittedBefore before = committed_before_change(live, share, node_.cards, node_.reserve);
    std::erase_if(past, [&](const Excess& excess) { return excess.share == share.name; });
    for (const Excess& excess : tenancy::past_limits(share, live, before)) past.push_back(excess);
  }
  for (const Share& share : wanted) {
    std::vector<Share> others = all;
    for (Share& other : others) {
      const auto changed = std::ranges::find(wanted, other.name, &Share::name);
      if (changed != wanted.end() && other.name != share.name) other = *changed;
    }
    TRY(admit(share, {node_.cards, others, quotas_, node_.reserve, past}));
  }
  return {};
}

// After an error all pages are as they were.
Result<void> Shares::apply_or_undo(std::span<const ledger::ShareGrant> grants, std::span<LiveShare* const> lives) {
  for (std::size_t i = 0; i < lives.size(); ++i) {
    auto applied = apply_limits(grants[i], *lives[i]->pages, node_.runtime_dir);
    if (applied) continue;
    for (std::size_t j = 0; j < i; ++j) {
      if (const auto before = to_grant(lives[j]->share))
        (void)apply_limits(*before, *lives[j]->pages, node_.runtime_dir);
    }
    return applied;
  }
  return {};
}

Result<void> Shares::set(std::span<const Share> wanted) {
  std::vector<LiveShare*> lives;
  std::vector<ledger::ShareGrant> grants, before;
  for (const Share& share : wanted) {
    lives.push_back(TRY(usable(share.name)));
    grants.push_back(TRY(to_grant(share)));
    before.push_back(TRY(to_grant(lives.back()->share)));
    TRY(may_become(*lives.back(), share));
  }
  TRY(admit_together(wanted));
  // Change the pages first: a disk may take longer than a running process should wait for its new limit.
  TRY(apply_or_undo(grants, lives));
  if (auto stored = store_.put(wanted); !stored) {
    (void)apply_or_undo(before, lives);
    return stored;
  }
  for (std::size_t i = 0; i < lives.size(); ++i) {
    LiveShare& live = *lives[i];
    apply_waiting(wanted[i], *live.pages);
    live.committed_before = committed_before_change(live, wanted[i], node_.cards, node_.reserve);
    live.share = wanted[i];
  }
  return {};
}

Result<void> Shares::command(const std::string& name, ledger::Command command) {
  LiveShare& live = *TRY(usable(name));
  // Draining does not resume a paused share, and pausing does not reopen a drained one: only run takes them back.
  if (command != ledger::Command::run) command = command | live.said;
  // Change the page first, as for limits.
  ledger::set_command(live.pages->policy(), command_in_force(command, live.time_over));
  auto stored = store_.put_command(name, command);
  if (stored) live.said = command;
  else ledger::set_command(live.pages->policy(), command_in_force(live.said, live.time_over));
  return stored;
}
Result<void> Shares::pause(const std::string& name) { return command(name, ledger::Command::pause); }
Result<void> Shares::resume(const std::string& name) { return command(name, ledger::Command::run); }

Result<void> Shares::drain(const std::string& name) { return command(name, ledger::Command::drain); }
void Shares::set_time_over(LiveShare& live, bool over) {
  if (live.pages == nullptr || live.time_over == over) return;
  live.time_over = over;
  ledger::set_command(live.pages->policy(), command_in_force(live.said, over));
}
Result<void> Shares::reclaim(const std::string& name) {
  ledger::ask_reclaim(TRY(usable(name))->pages->policy());
  return {};
}

namespace {

bool counts(const Share& share, const Run& run) {
  return !run.invited || may_enter(share, {.uid = run.invited->uid, .groups = run.invited->gids});
}

}  // namespace

Result<void> Shares::attach_run(const std::string& name, std::uint32_t pid, std::optional<InvitedUser> invited) {
  LiveShare& live = *TRY(usable(name));
  Run run = run_of(pid, node_.proc);
  run.invited = std::move(invited);
  std::erase_if(live.runs, [&](const Run& known) { return known.pid == pid || !is_alive(known, node_.proc); });
  TRY(room_for_run(live.runs, name, run.invited));
  live.runs.push_back(std::move(run));
  return live.share.until_empty ? store_.put_runs(name, live.runs) : Result<void>();
}

std::vector<Run> Shares::holding(LiveShare& live, std::uint32_t but) const {
  std::erase_if(live.runs, [&](const Run& run) { return !is_alive(run, node_.proc); });
  std::vector<Run> runs = live.runs;
  std::erase_if(runs, [&](const Run& run) { return run.pid == but || !counts(live.share, run); });
  return runs;
}

std::size_t Shares::staying(const std::string& name, std::uint32_t but) {
  LiveShare* const live = find(name);
  return live == nullptr ? 0 : holding(*live, but).size();
}

Result<void> Shares::remove(const std::string& name, std::uint32_t by) {
  LiveShare* live = find(name);
  if (live == nullptr)
    return fail(ErrorCode::not_found, "there is no share '" + escape_untrusted(name) + "'",
                "'headgate share ls' lists them");
  if (const std::vector<Run> runs = holding(*live, by); !runs.empty()) {
    std::string whose;
    for (const Run& run : runs) whose += " " + std::to_string(run.pid);
    const bool of_guests = std::ranges::any_of(runs, [](const Run& run) { return run.invited.has_value(); });
    return fail(
        ErrorCode::conflict,
        "the share '" + name + "' is in use by " + std::to_string(runs.size()) + " headgate run" +
            (runs.size() == 1 ? "" : "s") + ", whose programs may come back to it",
        "end them first: kill" + whose +
            (of_guests ? "; those of users that the share admits do not count once it admits them no longer" : ""));
  }
  if (live->distrusted()) return discard(*live, name);
  const auto seats = [&] { return live->pages ? ledger::live_slots(live->pages->usage()) : 0; };
  const auto in_use = [&] {
    const std::uint32_t inside = seats();
    return fail(ErrorCode::conflict,
                "the share '" + name + "' is in use" +
                    (inside == 0 ? ": memory of ended processes is still held"
                                 : " by " + std::to_string(inside) + (inside == 1 ? " process" : " processes")),
                "end them first; 'headgate ps' lists them");
  };
  // What its programs have mapped is not what its path names now, and they may hold on to it.
  if (seats() > 0 && trouble_of(*live)) return in_use();
  // If killed between the pages and the row, the next start would make new pages, with accounts that begin at 0.
  TRY(store_.note_removal(name, true));
  bool removed = false;
  const SigbusScope survives;
  const ledger::PageFault fault = ledger::remove_if_empty(node_.runtime_dir.c_str(), name.c_str(), removed);
  if (fault ? !missing(fault) : !removed) {
    TRY(store_.note_removal(name, false));
    if (is_strange(fault)) return discard(*live, name);
    if (fault) return std::unexpected(page_error(fault, node_.runtime_dir, name));
    return in_use();
  }
  return forget_row(*live, name);
}

// Removes the row of a share without pages; the removal was noted before they went.
Result<void> Shares::forget_row(LiveShare& live, const std::string& name) {
  if (auto gone = store_.remove_share(name); !gone) {
    live.pages.reset();
    Error why = gone.error();
    why.hint = "its pages are gone already: ask again, or the next start of headgated removes what is left of it";
    live.broken = why;
    return std::unexpected(std::move(why));
  }
  shares_.erase(name);
  return {};
}

// A process that still has the page mapped keeps a page that belongs to no share.
Result<void> Shares::discard(LiveShare& live, const std::string& name) {
  const std::string place = directory(name);
  struct stat usage{};
  if (::stat((place + "/usage").c_str(), &usage) == 0) {
    TRY(page_users_[name].none(name, place, usage.st_ino, node_.proc));
  }
  page_users_.erase(name);
  TRY(store_.note_removal(name, true));
  TRY(runtime_.remove(name));
  return forget_row(live, name);
}

std::optional<Error> Shares::trouble_of(const LiveShare& live) const {
  const std::string& name = live.share.name;
  if (live.broken || live.pages == nullptr || live.pages->in_place(directory(name))) return live.broken;
  return Error{
      ErrorCode::failed,
      "the share '" + name + "': its pages in " + directory(name) +
          " were removed, or have others in their place, so no program can enter it",
      "end its programs, which go on with the old pages; then headgate share rm " + name + ", and create it again"};
}

LiveShare* Shares::find(const std::string& name) {
  const auto found = shares_.find(name);
  return found == shares_.end() ? nullptr : &found->second;
}

Result<void> Shares::set_quota(const Quota& quota) {
  TRY(store_.put(quota));
  quotas_ = TRY(store_.quotas());
  return {};
}

Result<void> Shares::remove_quota(Quota::Subject subject, std::uint32_t id) {
  TRY(store_.remove_quota(subject, id));
  quotas_ = TRY(store_.quotas());
  return {};
}

Result<void> Shares::set_gpu_policy(const std::string& uuid, const std::string& policy) {
  auto stored = policy.empty() ? store_.remove_gpu_policy(uuid) : store_.put_gpu_policy(uuid, policy);
  if (!stored) return stored;
  gpu_policies_ = TRY(store_.gpu_policies());
  return {};
}

}  // namespace headgate::tenancy
