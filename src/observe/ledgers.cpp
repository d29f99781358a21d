#include "observe/ledgers.hpp"

#include <algorithm>
#include <cstring>

#include "base/saturating_math.hpp"
#include "guest/ledger/account.hpp"
#include "guest/ledger/clock.hpp"
#include "guest/ledger/draining.hpp"
#include "guest/ledger/gpu_page.hpp"
#include "guest/ledger/oom_wait.hpp"

namespace headgate::observe {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

std::string text_of(const char* bytes, std::size_t size) { return {bytes, ::strnlen(bytes, size)}; }

double ratio(std::uint32_t ppm) { return ppm / 1e6; }

std::string reason_word(ledger::Denial denial) {
  return denial == ledger::Denial::device_full ? "device_full" : denial == ledger::Denial::policy ? "policy" : "limit";
}

// Launches that did not wait are among the shortest delays.
std::vector<snapshot::LaunchDelay> delays_of(const ledger::LaunchDelays& delays) {
  std::vector<snapshot::LaunchDelay> all;
  for (std::uint32_t i = 0; i <= ledger::kDelayBounds; ++i) {
    snapshot::LaunchDelay& one = all.emplace_back();
    if (i < ledger::kDelayBounds) one.up_to_ns = static_cast<std::uint64_t>(ledger::kDelayBoundsNs[i]);
    one.launches = saturating_add(delays.waited[i].load(kRelaxed), i == 0 ? delays.prompt.load(kRelaxed) : 0);
  }
  return all;
}

snapshot::ShareDevice read_device(const ledger::PolicyPage& policy, const ledger::UsagePage& usage,
                                  std::uint32_t index) {
  const auto& rule = policy.devices[index];
  const auto& memory = usage.memory[index];
  const auto& compute = usage.compute[index];
  snapshot::ShareDevice device;
  device.uuid = text_of(rule.uuid, sizeof rule.uuid);
  if (const auto limit = rule.memory_limit_bytes.load(kRelaxed); limit != ledger::kNoMemoryLimit)
    device.memory_limit_bytes = limit;
  device.context_bytes = compute.context_bytes.load(kRelaxed);
  device.host_limit_bytes = rule.host_limit_bytes.load(kRelaxed);
  device.host_used_bytes = ledger::used_bytes(usage, ledger::host_account(index));
  device.compute_ceiling_ratio = ratio(rule.compute_ceiling_ppm.load(kRelaxed));
  if (const auto burst = rule.compute_burst_ppm.load(kRelaxed); burst != 0) device.compute_burst_ratio = ratio(burst);
  device.compute_guarantee_ratio = ratio(rule.compute_guarantee_ppm.load(kRelaxed));
  device.weight = rule.weight.load(kRelaxed);
  device.priority_class = class_word(rule.priority_class.load(kRelaxed));
  // Contexts of ended processes that are not settled yet; those of the living are added seat by seat.
  device.memory_residual_bytes = ledger::torn_on(usage, index).residual;
  device.memory_used_bytes = saturating_add(ledger::used_bytes(usage, index), device.memory_residual_bytes);
  device.memory_draining_bytes = ledger::draining_bytes(usage, index);
  device.refusals_device_full = memory.refusals_device_full.load(kRelaxed);
  device.refusals_policy = memory.refusals_policy.load(kRelaxed);
  device.refusals = saturating_add(memory.refusals.load(kRelaxed),
                                   saturating_add(device.refusals_device_full, device.refusals_policy));
  if (device.refusals > 0) {
    device.last_refusal = {.asked_bytes = memory.last_refusal_bytes.load(kRelaxed),
                           .used_bytes = memory.last_refusal_used.load(kRelaxed),
                           .unix_ns = memory.last_refusal_ns.load(kRelaxed),
                           .limit_bytes = device.memory_limit_bytes,
                           .pid = memory.last_refusal_pid.load(kRelaxed),
                           .reason = reason_word(memory.last_denial.load(kRelaxed))};
    if (const auto limit = memory.last_refusal_limit.load(kRelaxed); limit == ledger::kNoMemoryLimit)
      device.last_refusal->limit_bytes.reset();
    else if (limit != 0) device.last_refusal->limit_bytes = limit;
  }
  const std::int64_t now_ns = ledger::host_ns();
  const ledger::HeldTime held = ledger::held_time(compute, now_ns);
  device.held_ns = static_cast<std::uint64_t>(held.held_ns);
  device.held_age_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(0, now_ns - held.until_ns));
  device.estimated_ns = compute.estimated_ns.load(kRelaxed);
  device.neighbours_ns = compute.neighbours_ns.load(kRelaxed);
  device.copy_ns = compute.copy_ns.load(kRelaxed);
  device.throttled_ns = compute.throttled_ns.load(kRelaxed);
  device.throttled_launches = compute.throttled_launches.load(kRelaxed);
  device.launch_delays = delays_of(compute.delays);
  for (std::uint32_t i = 0; i < ledger::kMeterCallCount; ++i) {
    if (const auto count = compute.meter_failures[i].load(kRelaxed); count != 0)
      device.hook_errors.push_back({ledger::kMeterCalls[i], count});
  }
  const auto waited_ns = [&](ledger::WaitReason reason) {
    return compute.waited_ns[static_cast<std::uint32_t>(reason)].load(kRelaxed);
  };
  device.waited_pause_ns = waited_ns(ledger::WaitReason::pause);
  device.waited_turn_ns = waited_ns(ledger::WaitReason::turn);
  device.waited_ceiling_ns = waited_ns(ledger::WaitReason::ceiling);
  device.waited_work_ns = waited_ns(ledger::WaitReason::work);
  device.passed_in_debt = compute.passed_in_debt.load(kRelaxed);
  device.last_throttle_unix_ns = compute.last_throttle_ns.load(kRelaxed);
  return device;
}

std::uint64_t unexplained_of(const ledger::SlotDevice& own, std::uint64_t residual_bytes) {
  const std::uint64_t explained = own.explained_bytes.load(kRelaxed);
  return (explained & ledger::kExplained) == 0 ? 0 : saturating_sub(residual_bytes, explained & ~ledger::kExplained);
}

// A wait since before the machine was up, or since later than now, is a lie.
std::uint64_t waiting_ns(const ledger::SlotDevice& own) {
  const std::int64_t since_ns = own.long_wait_since_ns.load(kRelaxed);
  const std::int64_t now_ns = ledger::host_ns();
  return since_ns <= 0 || since_ns > now_ns ? 0 : static_cast<std::uint64_t>(now_ns - since_ns);
}

SeatWork work_of(const ledger::PolicyPage& policy, const ledger::SlotDevice& own, std::uint32_t device) {
  const bool arbitrated = policy.devices[device].arbitrated.load(kRelaxed) != 0;
  const bool held_back = policy.devices[device].compute_ceiling_ppm.load(kRelaxed) < ledger::kWholeGpu;
  return {.metered = policy.level != ledger::Level::observe && (arbitrated || held_back),
          .working = !arbitrated || own.work_until_ns.load(kRelaxed) != 0,
          .launches = own.launches.load(kRelaxed),
          .pulse = arbitrated ? std::optional(own.pulse.load(kRelaxed)) : std::nullopt};
}

std::string on_oom_word(std::uint32_t wait_ms) {
  if (wait_ms == 0) return "fail";
  // In the largest unit that fits a whole number of times, as users write it.
  const std::uint32_t seconds = (wait_ms + 999) / 1000;
  if (seconds % 3600 == 0) return "wait=" + std::to_string(seconds / 3600) + "h";
  if (seconds % 60 == 0) return "wait=" + std::to_string(seconds / 60) + "m";
  return "wait=" + std::to_string(seconds) + "s";
}

}  // namespace

std::string level_word(ledger::Level level) {
  switch (level) {
    case ledger::Level::observe: return "observe";
    case ledger::Level::hook: return "hook";
    case ledger::Level::hook_container: return "hook+container";
    case ledger::Level::mps: return "mps";
    case ledger::Level::mig: return "mig";
  }
  return "unknown";
}

std::string class_word(std::uint32_t priority_class) {
  return priority_class == 0 ? "best-effort" : priority_class == 2 ? "latency" : "normal";
}

LedgerSnapshot read_ledger(const ledger::PolicyPage& policy, const ledger::UsagePage& usage) {
  LedgerSnapshot snapshot;
  snapshot::Share& share = snapshot.share;
  share.name = text_of(policy.share, sizeof policy.share);
  share.generation = policy.generation;
  share.owner_uid = policy.owner_uid;
  share.level = level_word(policy.level);
  share.fail_policy = policy.fail_policy == ledger::FailPolicy::closed ? "closed" : "open";
  share.admit = policy.ask_first.load(kRelaxed) != 0 ? "ask" : "now";
  share.on_oom = on_oom_word(policy.oom_wait_ms.load(kRelaxed));
  const std::uint32_t count = std::min(policy.device_count, ledger::kMaxDevices);
  const bool metered = policy.level != ledger::Level::observe && ledger::is_metered(policy);
  for (std::uint32_t i = 0; i < count; ++i) {
    share.devices.push_back(read_device(policy, usage, i));
    share.devices.back().metered = metered;
    snapshot.waits_for_memory |=
        policy.oom_wait_ms.load(kRelaxed) != 0 && ledger::wanted_lately(usage, i, ledger::host_ns());
  }
  switch (policy.command.load(kRelaxed)) {
    case ledger::Command::pause: share.state = "paused"; break;
    case ledger::Command::drain: share.state = "draining"; break;
    case ledger::Command::pause_and_drain: share.state = "paused and draining"; break;
    default: break;
  }
  const std::uint32_t seen = std::min(usage.slots_seen.load(std::memory_order_acquire), ledger::kMaxSlots);
  for (std::uint32_t slot = 0; slot < seen; ++slot) {
    const auto seat = ledger::view(usage, slot);
    if (seat.kind != ledger::SlotKind::live) continue;
    snapshot.attended = true;
    if (std::string_view(seat.command) == kWaiterName) continue;
    const bool frozen = usage.slots[slot].frozen_since_ns.load(kRelaxed) != 0;
    share.frozen_processes += frozen ? 1 : 0;
    Seat taken{.identity = seat.identity, .command = seat.command};
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto& own = usage.slots[slot].devices[i];
      const std::uint64_t residual = own.residual_bytes.load(kRelaxed);
      taken.bytes.push_back(saturating_add(ledger::held_bytes(usage, i, slot), residual));
      taken.unexplained.push_back(unexplained_of(own, residual));
      taken.work.push_back(work_of(policy, own, i));
      taken.sm_percent.push_back(std::min(own.sm_percent.load(kRelaxed), 100u));
      snapshot::ShareDevice& device = share.devices[i];
      device.memory_residual_bytes = saturating_add(device.memory_residual_bytes, residual);
      device.memory_used_bytes = saturating_add(device.memory_used_bytes, residual);
      if (frozen) device.memory_frozen_bytes = saturating_add(device.memory_frozen_bytes, taken.bytes.back());
      device.launches += own.launches.load(kRelaxed);
      device.waiting_ns = std::max(device.waiting_ns, waiting_ns(own));
    }
    snapshot.seats.push_back(std::move(taken));
  }
  // Contexts come and go between two notes of the limiters: the peak is never below what is used now.
  for (std::uint32_t i = 0; i < count; ++i)
    share.devices[i].memory_peak_bytes = std::max(
        {ledger::peak_in_use_bytes(usage, i), ledger::peak_bytes(usage, i), share.devices[i].memory_used_bytes});
  share.processes = static_cast<std::uint32_t>(snapshot.seats.size());
  share.freezes = usage.freezes.load(kRelaxed);
  share.thaws = usage.thaws.load(kRelaxed);
  return snapshot;
}

}  // namespace headgate::observe
