#include "tenancy/shares.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/saturating_math.hpp"
#include "base/unique_fd.hpp"
#include "base/units.hpp"
#include "guest/ledger/registration.hpp"
#include "guest/ledger/slot.hpp"
#include "tenancy/share.hpp"
#include "tenancy/share_pages.hpp"

namespace headgate::tenancy {
namespace {

// Others may traverse it to a share's socket, but not list it: share names are private to their owners.
constexpr mode_t kPassage = 0711;
// Names a directory while it is removed; no share has such a name.
constexpr const char* kAside = ".removed-";

Result<void> open_passage(const std::string& path) {
  if (::chmod(path.c_str(), kPassage) != 0) return fail_errno(path, errno);
  return {};
}

// Writes the policy for programs that find no daemon: they may open no page, and their environment must not weaken the
// share's policy.
Result<void> tell_fail_policy(const std::string& directory, ledger::FailPolicy policy) {
  const std::string path = directory + "/" + ledger::kFailPolicyFile, aside = path + ".new";
  const std::string_view word = policy == ledger::FailPolicy::closed ? "closed\n" : "open\n";
  (void)::unlink(aside.c_str());
  const UniqueFd file(::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file) return fail_errno(aside, errno);
  if (::fchmod(file.get(), 0644) != 0 ||
      ::write(file.get(), word.data(), word.size()) != static_cast<ssize_t>(word.size()) ||
      ::rename(aside.c_str(), path.c_str()) != 0)
    return fail_errno(path, errno);
  return {};
}

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

bool LiveShare::paused() const { return pages != nullptr && ledger::is_paused(pages->policy()); }

bool LiveShare::distrusted() const { return !damage.empty() || (pages != nullptr && pages->truncated()); }

Result<std::unique_ptr<Pages>> Shares::hold(ledger::SharePages pages, const std::string& name) const {
  const std::string place = directory(name);
  UniqueFd usage(::open((place + "/usage").c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  const int error = errno;
  auto held = std::make_unique<Pages>(pages, open_read_only_mount(place, "policy"), std::move(usage));
  if (!held->guarded()) return std::unexpected(unguarded(name));
  if (held->usage_fd() < 0) return fail_errno(place + "/usage", error);
  if (held->policy_fd() < 0) return fail_errno(place + "/policy", errno);
  if (auto open = open_passage(place); !open) return std::unexpected(open.error());
  return held;
}

Result<Shares> Shares::open(Node node, Store store, Adoption& adoption) {
  if (!node.runtime_dir.starts_with('/')) {
    return fail(ErrorCode::usage,
                "the runtime directory '" + escape_untrusted(node.runtime_dir) + "' is not an absolute path");
  }
  // 0755: a process passes through here to reach a tenant socket.
  if (::mkdir(node.runtime_dir.c_str(), 0755) != 0 && errno != EEXIST)
    return fail_errno("the runtime directory " + node.runtime_dir, errno);
  const std::string folder = node.runtime_dir + "/shares";
  if (::mkdir(folder.c_str(), kPassage) != 0 && errno != EEXIST) return fail_errno(folder, errno);
  if (auto open = open_passage(folder); !open) return std::unexpected(open.error());
  Shares shares(std::move(node), std::move(store));
  shares.quotas_ = TRY(shares.store_.quotas());
  shares.gpu_policies_ = TRY(shares.store_.gpu_policies());
  auto runs = TRY(shares.store_.runs());
  for (Share& share : TRY(shares.store_.shares())) {
    const std::string name = share.name;
    if (auto good = shares.adopt(std::move(share), adoption); !good) adoption.refused.emplace_back(name, good.error());
    if (LiveShare* const live = shares.find(name)) live->runs = std::move(runs[name]);
  }
  shares.look_at_the_rest(adoption);
  return shares;
}

// A share that cannot be used still counts: its processes may hold what was committed to them.
Result<void> Shares::adopt(Share share, Adoption& adoption) {
  const std::string name = share.name;
  LiveShare& live = shares_[name];
  live.share = std::move(share);
  const auto broken = [&](Error error) -> Result<void> {
    live.broken = error;
    return std::unexpected(std::move(error));
  };
  const auto grant = to_grant(live.share);
  if (!grant) return broken(grant.error());
  const auto removal = store_.removal_begun(name);
  if (!removal) return broken(removal.error());
  ledger::SharePages pages;
  const SigbusScope survives;
  cut_usage_file(directory(name));
  ledger::PageFault fault = ledger::open_share(node_.runtime_dir.c_str(), name.c_str(), ledger::Access::owner, pages);
  const bool anew = missing(fault);
  if (*removal && anew) {
    shares_.erase(name);
    return store_.remove_share(name);
  }
  if (anew) fault = ledger::create_share(node_.runtime_dir.c_str(), *grant, ledger::Access::owner, pages);
  if (fault) return broken(page_error(fault, node_.runtime_dir, name));
  auto held = hold(pages, name);
  if (!held) return broken(held.error());
  if (*removal)
    if (auto noted = store_.note_removal(name, false); !noted) return broken(noted.error());
  if (!covers((*held)->policy(), *grant)) {
    return broken({ErrorCode::failed,
                   "the share '" + name + "' is stored with other GPUs than its pages in " + directory(name) + " have",
                   "end its processes and remove that directory; the next start makes a new one"});
  }
  // A change that was cut off between page and row was never confirmed: the row stands.
  if (auto applied = apply_limits(*grant, **held, node_.runtime_dir); !applied) return broken(applied.error());
  apply_waiting(live.share, **held);
  if (auto told = tell_fail_policy(directory(name), live.share.fail_policy); !told) return broken(told.error());
  const auto said = store_.command_of(name);
  if (!said) return broken(said.error());
  live.said = *said;
  // Pages that drain without a command to do so had their time over: a restart does not open them before the clock has
  // been checked.
  live.time_over = !anew && ledger::is_draining((*held)->policy()) && !ledger::says(live.said, ledger::Command::drain);
  ledger::set_command((*held)->policy(), command_in_force(live.said, live.time_over));
  live.generation = (*held)->policy().generation;
  live.pages = std::move(*held);
  note_held(live);
  (anew ? adoption.made_anew : adoption.adopted).push_back(name);
  return {};
}

namespace {

constexpr std::uint64_t kFilesOfAShare = 8;  // its directory, pages, socket, and some to spare
constexpr std::uint64_t kBytesOfAShare = sizeof(ledger::PolicyPage) + sizeof(ledger::UsagePage);

}  // namespace

Result<Shares::RuntimeRoom> Shares::runtime_room() const {
  struct statvfs room{};
  if (::statvfs(node_.runtime_dir.c_str(), &room) != 0) return fail_errno(node_.runtime_dir, errno);
  return RuntimeRoom{.free_bytes = room.f_bavail * room.f_frsize,
                     .size_bytes = room.f_blocks * room.f_frsize,
                     .free_files = room.f_favail,
                     .files = room.f_files};
}

bool Shares::RuntimeRoom::is_low() const {
  constexpr std::uint64_t kShares = 64;
  return (size_bytes != 0 && free_bytes < std::min(kShares * kBytesOfAShare, size_bytes / 4)) ||
         (files != 0 && free_files < std::min(kShares * kFilesOfAShare, files / 4));
}

Result<void> Shares::check_room(std::uint64_t more) const {
  const RuntimeRoom room = TRY(runtime_room());
  // A file system without a limit reports none.
  const bool full = room.size_bytes != 0 && room.free_bytes < more * kBytesOfAShare;
  const bool no_names = room.files != 0 && room.free_files < more * kFilesOfAShare;
  if (!full && !no_names) return {};
  return fail(ErrorCode::no_capacity,
              "the file system of " + node_.runtime_dir + " is full: " + bytes_text(room.free_bytes) + " and " +
                  std::to_string(room.free_files) + " files are left, and a share takes " + bytes_text(kBytesOfAShare) +
                  " and " + std::to_string(kFilesOfAShare) +
                  (more > 1 ? "; the last " + std::to_string(more - 1) + " are kept for administrators" : ""),
              "du -a " + node_.runtime_dir +
                  " says what fills it; where it is its own (run-headgate.mount): mount -o remount,size=1G " +
                  node_.runtime_dir);
}

void Shares::look_at_the_rest(Adoption& adoption) const {
  std::error_code error;
  for (std::filesystem::directory_iterator at(node_.runtime_dir + "/shares", error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::error_code ignored;
    if (name.starts_with(kAside)) std::filesystem::remove_all(at->path(), ignored);
    if (!name.starts_with('.') && !shares_.contains(name)) adoption.unmanaged.push_back(name);
  }
  std::ranges::sort(adoption.unmanaged);
}

std::vector<Share> Shares::rows() const {
  std::vector<Share> all;
  all.reserve(shares_.size());
  for (const auto& [name, live] : shares_) all.push_back(live.share);
  return all;
}

namespace {

// Returns what the programs of a live share hold past the limits of `share`, at most what was committed before.
std::vector<Excess> past_limits_of(const Share& share, const LiveShare& live,
                                   const std::map<std::string, std::uint64_t>& committed_before) {
  std::vector<Excess> all;
  if (live.pages == nullptr) return all;
  for (const DeviceShare& device : share.devices) {
    const auto before = committed_before.find(device.uuid);
    if (before == committed_before.end() || !device.memory_limit_bytes) continue;
    // A damaged page proves nothing: all that was committed may still be held.
    const std::uint64_t held =
        live.distrusted() ? before->second : std::min(held_on(*live.pages, device.uuid), before->second);
    if (held > *device.memory_limit_bytes) all.push_back({share.name, device.uuid, held - *device.memory_limit_bytes});
  }
  return all;
}

}  // namespace

std::vector<Excess> Shares::past_limits() const {
  std::vector<Excess> all;
  for (const auto& [name, live] : shares_) {
    for (Excess& excess : past_limits_of(live.share, live, live.committed_before)) all.push_back(std::move(excess));
  }
  return all;
}

// After a restart the previous limit of an adopted share is unknown, so count what its processes hold now. What they
// hold within the room for contexts is kept beside each share anyway.
void Shares::note_held(LiveShare& live) const {
  for (const DeviceShare& device : live.share.devices) {
    const auto card = std::ranges::find(node_.cards, device.uuid, &Card::uuid);
    if (card == node_.cards.end()) continue;
    const std::uint64_t held = std::min(held_on(*live.pages, device.uuid), card->memory_total_bytes);
    if (held > saturating_add(asked_of(device, *card, node_.reserve), node_.reserve.context_room_bytes))
      live.committed_before[device.uuid] = held;
  }
}

void Shares::note_lowered(LiveShare& live, const Share& wanted) const {
  for (const DeviceShare& device : wanted.devices) {
    const auto former = std::ranges::find(live.share.devices, device.uuid, &DeviceShare::uuid);
    const auto card = std::ranges::find(node_.cards, device.uuid, &Card::uuid);
    if (former == live.share.devices.end() || card == node_.cards.end()) continue;
    const std::uint64_t committed = asked_of(*former, *card, node_.reserve);
    if (asked_of(device, *card, node_.reserve) >= committed) continue;
    std::uint64_t& before = live.committed_before[device.uuid];
    before = std::max(before, committed);
  }
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
  if (auto stored = store_.put(share); !stored) return stored;
  const auto undo = [&](Error error) -> Result<void> {
    if (auto removed = store_.remove_share(share.name); !removed)
      error.message += "; and its row stays: " + removed.error().message;
    return std::unexpected(std::move(error));
  };
  ledger::SharePages pages;
  const SigbusScope survives;
  if (const auto bad = ledger::create_share(node_.runtime_dir.c_str(), grant, ledger::Access::owner, pages))
    return undo(page_error(bad, node_.runtime_dir, share.name));
  auto held = hold(pages, share.name);
  if (auto told = tell_fail_policy(directory(share.name), share.fail_policy); held && !told)
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
    LiveShare lowered;
    lowered.share = live.share;
    lowered.committed_before = live.committed_before;
    note_lowered(lowered, share);
    std::erase_if(past, [&](const Excess& excess) { return excess.share == share.name; });
    for (const Excess& excess : past_limits_of(share, live, lowered.committed_before)) past.push_back(excess);
  }
  for (const Share& share : wanted) {
    std::vector<Share> others = all;
    for (Share& other : others) {
      const auto changed = std::ranges::find(wanted, other.name, &Share::name);
      if (changed != wanted.end() && other.name != share.name) other = *changed;
    }
    if (auto admitted = admit(share, {node_.cards, others, quotas_, node_.reserve, past}); !admitted) return admitted;
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
    if (auto may = may_become(*lives.back(), share); !may) return may;
  }
  if (auto admitted = admit_together(wanted); !admitted) return admitted;
  // Change the pages first: a disk may take longer than a running process should wait for its new limit.
  if (auto applied = apply_or_undo(grants, lives); !applied) return applied;
  if (auto stored = store_.put(wanted); !stored) {
    (void)apply_or_undo(before, lives);
    return stored;
  }
  for (std::size_t i = 0; i < lives.size(); ++i) {
    LiveShare& live = *lives[i];
    apply_waiting(wanted[i], *live.pages);
    note_lowered(live, wanted[i]);
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
  if (auto room = room_for_run(live.runs, name, run.invited); !room) return room;
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
  if (auto noted = store_.note_removal(name, true); !noted) return noted;
  bool removed = false;
  const SigbusScope survives;
  const ledger::PageFault fault = ledger::remove_if_empty(node_.runtime_dir.c_str(), name.c_str(), removed);
  if (fault ? !missing(fault) : !removed) {
    if (auto noted = store_.note_removal(name, false); !noted) return noted;
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
    if (auto unused = page_users_[name].none(name, place, usage.st_ino, node_.proc); !unused) return unused;
  }
  page_users_.erase(name);
  if (auto noted = store_.note_removal(name, true); !noted) return noted;
  // Rename it first: a kill in between leaves no half share.
  const std::string aside = node_.runtime_dir + "/shares/" + kAside + name;
  std::error_code error;
  std::filesystem::remove_all(aside, error);
  if (::rename(place.c_str(), aside.c_str()) != 0 && errno != ENOENT) return fail_errno("removing " + place, errno);
  std::filesystem::remove_all(aside, error);
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
  if (auto stored = store_.put(quota); !stored) return stored;
  quotas_ = TRY(store_.quotas());
  return {};
}

Result<void> Shares::remove_quota(Quota::Subject subject, std::uint32_t id) {
  if (auto removed = store_.remove_quota(subject, id); !removed) return removed;
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
