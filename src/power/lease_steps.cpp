// The keeper thread's steps for one lease: create, save, restore, adopt.
#include <random>
#include <utility>

#include "base/now.hpp"
#include "identity/peer.hpp"
#include "identity/process.hpp"
#include "power/lease_keeper.hpp"

namespace headgate::power {
namespace {

std::string new_id() {
  std::random_device random;
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string id;
  for (int i = 0; i < 12; ++i) id += kDigits[random() % kDigits.size()];
  return id;
}

// Prepares a GPU reset. Returns a lease of the daemon that turns off a GPU's persistence mode ("all": every GPU's) and
// saves all settings, which a reset clears.
Result<Lease> pause_of(SettingsIo& io, const std::string& gpu) {
  const Caller caller{.text = "the release of a GPU", .uid = {}, .quiet = true};
  Lease lease;
  lease.pauses = true;
  for (std::uint32_t index = 0; index < io.queues().count(); ++index) {
    if (gpu != "all" && io.index_of(gpu) != index) continue;
    const std::string& uuid = io.queues().gpu(index).identity().uuid;
    lease.wanted[uuid].persistence = false;
    Settings& saved = lease.saved[uuid];
    // Settings that the GPU lacks are not restored.
    const auto value_of = [&](Operation operation) { return io.command(index, {.operation = operation}, caller); };
    for (const auto read : {Operation::get_power_limit, Operation::get_compute_mode, Operation::get_time_slice})
      if (const auto reading = value_of(read)) take_reading(read, *reading, saved);
    take_reading(Operation::get_persistence_mode, TRY(value_of(Operation::get_persistence_mode)), saved);
    const ClockRange gpu_clocks = io.queues().locked_clocks(index, Operation::set_gpu_locked_clocks);
    const ClockRange mem_clocks = io.queues().locked_clocks(index, Operation::set_mem_locked_clocks);
    if (gpu_clocks.max_mhz != 0) saved.gpu_clocks = gpu_clocks;
    if (mem_clocks.max_mhz != 0) saved.mem_clocks = mem_clocks;
  }
  if (lease.wanted.empty())
    return fail(ErrorCode::not_found, "there is no GPU '" + gpu + "'", "GET /v1/gpus lists them");
  return lease;
}

}  // namespace

Result<void> LeaseKeeper::check_conflicts(const Lease& lease) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, held] : leases_) {
    for (const auto& [uuid, wanted] : lease.wanted) {
      const auto control = held.lease.shared_control(uuid, wanted);
      if (!control) continue;
      return fail(ErrorCode::conflict,
                  "GPU " + std::to_string(io_.index_of(uuid).value_or(0)) + ": the " + *control + " is held by " +
                      describe(held.lease),
                  "wait for its end, or: headgate power end " + id);
    }
  }
  return {};
}

Result<Lease> LeaseKeeper::make(const LeaseTerms& terms, std::uint32_t owner_uid) {
  Lease lease;
  lease.id = new_id();
  lease.wanted = terms.wanted;
  lease.owner_uid = owner_uid;
  lease.ttl_s = terms.ttl_s;
  if (terms.ttl_s != 0) lease.ends_at_s = options_.now_s() + terms.ttl_s;
  for (const auto& [uuid, wanted] : lease.wanted)
    if (!io_.index_of(uuid))
      return fail(ErrorCode::not_found, "there is no GPU '" + uuid + "'", "GET /v1/gpus lists them");
  TRY(check_conflicts(lease));
  UniqueFd pidfd;
  if (terms.holder_pid != 0) pidfd = TRY(hold_process(terms.holder_pid, lease));
  for (const auto& [uuid, wanted] : lease.wanted)
    lease.saved[uuid] = TRY(io_.read(*io_.index_of(uuid), wanted, caller_of(lease)));
  TRY(record(lease, std::move(pidfd)));
  if (auto applied = io_.apply(lease.wanted, caller_of(lease)); !applied) {
    (void)put_back(lease.id, "it could not be made", false);
    return std::unexpected(applied.error());
  }
  tell(false, lease, "begins: " + lease_json(lease));
  return lease;
}

Result<UniqueFd> LeaseKeeper::hold_process(std::uint32_t pid, Lease& lease) const {
  const auto process = TRY(identity::read_process(options_.proc, pid));
  lease.holder_pid = process.pid;
  lease.holder_start_time = process.start_time;
  return identity::pidfd_of(process, options_.proc);
}

// If a lease of another kind has saved the same control, that lease restores it.
Result<void> LeaseKeeper::save_before(const SessionWrite& write) {
  Lease lease;
  UniqueFd pidfd;
  for (const Lease& one : list()) {
    const std::lock_guard lock(mutex_);
    if (one.session && one.holder_pid == write.holder_pid && !one.ending && leases_[one.id].ends_at_ns == 0)
      lease = one;
  }
  const bool is_new = lease.id.empty();
  if (is_new) {
    lease.id = new_id();
    lease.session = true;
    lease.owner_uid = write.owner_uid;
    pidfd = TRY(hold_process(write.holder_pid, lease));
  }
  bool more = false;
  const Settings changed = named_by(write.command);
  for (const std::string& uuid : write.uuids) {
    const auto saved = lease.saved.find(uuid);
    Settings missing = saved == lease.saved.end() ? changed : without(changed, saved->second);
    for (const Lease& other : list()) {
      if (other.id == lease.id || !other.holds(uuid, write.command)) continue;
      if (other.owner_uid != write.owner_uid)
        return fail(ErrorCode::conflict, "this setting is held by " + describe(other), "wait for its end");
      missing = without(missing, changed);
    }
    const auto gpu = io_.index_of(uuid);
    if (!gpu || missing.empty()) continue;
    add_missing(lease.saved[uuid], TRY(io_.read(*gpu, missing, caller_of(lease))));
    more = true;
  }
  if (!more) return {};
  if (is_new) {
    auto recorded = record(lease, std::move(pidfd));
    if (recorded) tell(false, lease, "begins");
    return recorded;
  }
  Lease former;
  {
    const std::lock_guard lock(mutex_);
    former = std::exchange(leases_[lease.id].lease, lease);
  }
  return save_or([&] { leases_[lease.id].lease = std::move(former); });
}

Result<void> LeaseKeeper::make_site(const SettingsByGpu& site) {
  SettingsByGpu now = site;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [id, held] : leases_) {
      for (auto& [uuid, saved] : held.lease.saved) {
        const auto found = site.find(uuid);
        if (found == site.end()) continue;
        replace_named(saved, found->second);
        now[uuid] = without(now[uuid], saved);
      }
    }
  }
  TRY(save());
  const auto restored = io_.restore(now, {.text = "the site's own settings", .uid = {}, .quiet = true});
  if (restored.trouble.empty()) return {};
  return fail(ErrorCode::failed, "the site's own settings: " + restored.trouble, "see power.at_start");
}

// Saves the lease before anything is written to a GPU.
Result<void> LeaseKeeper::record(const Lease& lease, UniqueFd pidfd) {
  {
    const std::lock_guard lock(mutex_);
    Held& held = leases_[lease.id];
    held.lease = lease;
    held.pidfd = std::move(pidfd);
  }
  return save_or([&] { leases_.erase(lease.id); });
}

// Uses a lease of the daemon, which survives a crash and retries restoring while the GPU is gone.
Result<void> LeaseKeeper::pause(const std::string& gpu, std::uint32_t seconds) {
  Lease lease = TRY(pause_of(io_, gpu));
  lease.id = new_id();
  lease.ttl_s = seconds;
  lease.ends_at_s = options_.now_s() + seconds;
  TRY(record(lease, {}));
  if (auto applied = io_.apply(lease.wanted, caller_of(lease)); !applied) {
    (void)put_back(lease.id, "persistence could not be given up", false);
    return applied;
  }
  tell(false, lease, "gives up the persistence mode for " + std::to_string(seconds) + " s, so that a GPU can be reset");
  return {};
}

// Removes the lease from the file first. If the daemon is killed before the next step, the next daemon finds no lease,
// and the settings stay.
Result<void> LeaseKeeper::forget(const std::string& id) {
  Held held;
  {
    const std::lock_guard lock(mutex_);
    const auto found = leases_.find(id);
    if (found == leases_.end() || found->second.lease.ending) return no_lease(id);
    held = std::move(found->second);
    leases_.erase(found);
  }
  TRY(save_or([&] { leases_[id] = std::move(held); }));
  tell(false, held.lease, "ends, and its settings stay");
  return {};
}

void LeaseKeeper::apply_again(const SettingsByGpu& gpus, const std::string& but) {
  for (const Lease& lease : list()) {
    SettingsByGpu wanted;
    for (const auto& [uuid, settings] : lease.wanted)
      if (gpus.contains(uuid)) wanted[uuid] = settings;
    if (wanted.empty() || lease.ending || lease.id == but) continue;
    if (auto applied = io_.apply(wanted, caller_of(lease)); !applied)
      tell(true, lease, "could not be set again: " + applied.error().message);
  }
}

// `keep`: leave the lease in the file, for the next start.
Result<void> LeaseKeeper::put_back(const std::string& id, const std::string& why, bool keep) {
  Lease lease;
  {
    const std::lock_guard lock(mutex_);
    const auto found = leases_.find(id);
    if (found == leases_.end()) return no_lease(id);
    if (!keep) found->second.lease.ending = true;
    lease = found->second.lease;
  }
  auto [left, trouble] = io_.restore(lease.saved, caller_of(lease));
  {
    const std::lock_guard lock(mutex_);
    Held& held = leases_[id];
    if (!keep && left.empty()) {
      leases_.erase(id);
    } else if (!keep) {
      held.lease.saved = left;
      held.retry_at_ns = steady_now_ns() + static_cast<std::uint64_t>(std::chrono::nanoseconds(options_.retry).count());
    }
  }
  if (auto saved = save(); !saved) trouble += (trouble.empty() ? "" : "; ") + saved.error().message;
  if (!why.empty())
    tell(!trouble.empty(), lease, "ends: " + why + (trouble.empty() ? "; its values are put back" : ""));
  if (trouble.empty()) {
    // After a pause and reset, the restored values may lie under another lease's settings: apply these again.
    if (!keep && lease.pauses) apply_again(lease.saved, id);
    return {};
  }
  if (!why.empty()) tell(true, lease, "not put back yet, and the daemon keeps trying: " + trouble);
  return fail(ErrorCode::failed, "not all values are put back: " + trouble, "the daemon tries again each second");
}

// Takes over a lease of a former daemon.
void LeaseKeeper::adopt(Lease lease) {
  UniqueFd pidfd;
  bool lives = !lease.ending && (lease.ttl_s == 0 || lease.ends_at_s > options_.now_s());
  if (lives && lease.holder_pid != 0) {
    const auto process = identity::read_process(options_.proc, lease.holder_pid);
    lives = process && process->start_time == lease.holder_start_time && !process->ended;
    if (lives) pidfd = identity::pidfd_of(*process, options_.proc).value_or(UniqueFd());
    lives = static_cast<bool>(pidfd);
  }
  if (!lives) return (void)put_back(lease.id, "its holder ended while no daemon ran", false);
  {
    const std::lock_guard lock(mutex_);
    leases_[lease.id].pidfd = std::move(pidfd);
  }
  if (auto applied = io_.apply(lease.wanted, caller_of(lease)); !applied)
    return tell(true, lease, "adopted, but: " + applied.error().message);
  tell(false, lease, "adopted: its holder lives");
}

// Another program may have changed the settings, or the driver was reloaded. Skips GPUs that do not answer.
LeaseKeeper::Drift LeaseKeeper::drift_of(const Lease& lease) {
  const Caller caller{.text = "the daemon's look at leases", .uid = {}, .quiet = true};
  Drift drift;
  for (const auto& [uuid, wanted] : lease.wanted) {
    const auto gpu = io_.index_of(uuid);
    const auto now = gpu ? io_.read(*gpu, wanted, caller) : fail(ErrorCode::not_found, "");
    if (!now) continue;
    // The counter restarts with the driver.
    if (const auto energy = io_.queues().gpu(*gpu).read(Operation::get_cumulative_energy)) {
      drift.reloaded = drift.reloaded || *energy < energy_mj_[*gpu];
      energy_mj_[*gpu] = *energy;
    }
    std::string has;
    const auto has_now = controls_of(*now), wants = controls_of(wanted);
    for (std::size_t i = 0; i < wants.size(); ++i) {
      if (has_now[i] == wants[i]) continue;
      has += (has.empty() ? "" : ", ") + wants[i].name + " " + has_now[i].value + ", not " + wants[i].value;
    }
    if (has.empty()) continue;
    drift.what += (drift.what.empty() ? "" : "; ") + std::string("GPU ") + std::to_string(*gpu) + " has " + has;
  }
  return drift;
}

Result<void> LeaseKeeper::save() {
  const std::lock_guard file(file_mutex_);
  return save_leases(options_.file, list());
}

Result<void> LeaseKeeper::save_or(const std::function<void()>& undo) {
  auto saved = save();
  if (saved) return saved;
  const std::lock_guard lock(mutex_);
  undo();
  return saved;
}

void LeaseKeeper::tell(bool trouble, const Lease& lease, const std::string& text) const {
  if (options_.tell)
    options_.tell({.trouble = trouble, .text = describe(lease) + " " + text, .owner_uid = lease.owner_uid});
}

}  // namespace headgate::power
