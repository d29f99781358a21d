// Device memory is only counted: bytes per process and per card.
#include <algorithm>

#include "sim/engine.hpp"
#include "sim/engine/clocks.hpp"

namespace headgate::sim {

std::uint64_t Engine::capacity_bytes() const {
  const Profile& profile = state_->profile;
  return profile.memory_bytes - std::min(profile.memory_bytes, profile.reserved_bytes);
}

std::uint64_t Engine::free_bytes(std::uint32_t device) const {
  return capacity_bytes() - std::min(capacity_bytes(), state_->devices[device].bytes);
}

bool Engine::reserve(std::uint32_t a, std::uint64_t bytes, std::uint64_t footprint) {
  const Account& account = state_->accounts[a];
  if (footprint > free_bytes_for(account)) return false;
  Account& changed = change(account);
  changed.bytes += bytes;
  changed.slack_bytes += footprint - bytes;
  changed.peak_bytes = std::max(changed.peak_bytes, changed.bytes);
  change(state_->devices[account.device]).bytes += footprint;
  commit();
  return true;
}

void Engine::release(std::uint32_t a, std::uint64_t bytes, std::uint64_t footprint) {
  Account& account = change(state_->accounts[a]);
  account.bytes -= bytes;
  account.slack_bytes -= footprint - bytes;
  change(state_->devices[account.device]).bytes -= footprint;
  commit();
}

// A dead process's memory is freed when its teardown is over.
void Engine::end_teardowns(std::uint64_t now_ns) {
  if (state_->tearing_down == 0) return;
  for (const Account& account : state_->accounts) {
    if (account.teardown_bytes == 0 || account.death_ns + state_->profile.teardown_ns > now_ns) continue;
    change(state_->devices[account.device]).bytes -= account.teardown_bytes;
    change(account).teardown_bytes = 0;
    --change(state_->tearing_down);
    commit();
  }
}

bool Engine::reserve_context_bytes(std::uint32_t a, std::uint64_t bytes) {
  const Account& account = state_->accounts[a];
  if (bytes > free_bytes_for(account)) return false;
  change(account).context_bytes += bytes;
  change(state_->devices[account.device]).bytes += bytes;
  commit();
  return true;
}

void Engine::release_context_bytes(std::uint32_t a, std::uint64_t bytes) {
  Account& account = change(state_->accounts[a]);
  account.context_bytes -= bytes;
  change(state_->devices[account.device]).bytes -= bytes;
  commit();
}

void Engine::reset_accounts() {
  for (std::uint32_t a = 0; a < kMaxAccounts; ++a) {
    if (!state_->accounts[a].used) continue;
    Account& account = change(state_->accounts[a]);
    if (account.used == 2 && account.teardown_bytes == 0) account.used = 0;
    account.held_ns = account.sm_ns_sms = account.copy_ns = account.kernels = account.spin_ns = account.overlaps = 0;
    account.peak_bytes = account.bytes;
    zero_history(state_->history[a]);
    commit();
  }
  for (std::uint32_t d = 0; d < state_->device_count; ++d) {
    // The driver's energy counter continues.
    NvmlDevice& set = state_->nvml[d];
    const std::uint32_t limit_mw = set.power_limit_mw != 0 ? set.power_limit_mw : state_->profile.power_default_mw;
    settle_energy(state_->profile, set, limit_mw, state_->devices[d].busy_ns, state_->now_ns);
    set.energy_busy_ns = 0;
    change(state_->devices[d]).busy_ns = 0;
    state_->nvml[d].ecc_off_now = state_->nvml[d].ecc_off;
    zero_history(state_->device_history[d]);
  }
  for (Flag& flag : state_->flags) {
    if (flag.used && flag.process == kNone) change(flag).value = 0;
  }
  commit();
}

// Histories are large, and half a reset is harmless, so they bypass the journal.
void Engine::zero_history(const History& history) {
  for (const Bucket& bucket : history.buckets) {
    if (bucket.held_ns != 0) const_cast<Bucket&>(bucket) = {};
  }
}

}  // namespace headgate::sim
