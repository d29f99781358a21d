#include "cli/shares.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "cli/output.hpp"
#include "guest/ledger/account.hpp"
#include "guest/ledger/draining.hpp"
#include "guest/ledger/slot.hpp"

namespace headgate::cli {
namespace {

namespace fs = std::filesystem;
constexpr auto kRelaxed = std::memory_order_relaxed;

std::uint64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

class Opened {
 public:
  ~Opened() { ledger::close_pages(pages); }
  ledger::SharePages pages;
};

ShareDevice read_device(const ledger::PolicyPage& policy, const ledger::UsagePage& usage, std::uint32_t index) {
  const auto& rule = policy.devices[index];
  const auto& memory = usage.memory[index];
  const auto& compute = usage.compute[index];
  ShareDevice device;
  device.uuid = harmless(std::string(rule.uuid, ::strnlen(rule.uuid, sizeof rule.uuid)));
  if (const auto limit = rule.memory_limit_bytes.load(kRelaxed); limit != ledger::kNoMemoryLimit)
    device.memory_limit_bytes = limit;
  device.host_limit_bytes = rule.host_limit_bytes.load(kRelaxed);
  device.host_used_bytes = ledger::used_bytes(usage, ledger::host_account(index));
  device.compute_ceiling_ppm = rule.compute_ceiling_ppm.load(kRelaxed);
  device.compute_burst_ppm = rule.compute_burst_ppm.load(kRelaxed);
  device.memory_residual_bytes = ledger::torn_on(usage, index).residual;
  device.memory_used_bytes = ledger::used_bytes(usage, index) + device.memory_residual_bytes;
  device.memory_peak_bytes = ledger::peak_bytes(usage, index);
  device.memory_orphaned_bytes = ledger::draining_bytes(usage, index);
  device.refusals = memory.refusals.load(kRelaxed);
  device.last_refusal_bytes = memory.last_refusal_bytes.load(kRelaxed);
  device.last_refusal_used_bytes = memory.last_refusal_used.load(kRelaxed);
  device.last_refusal_ns = memory.last_refusal_ns.load(kRelaxed);
  device.last_refusal_pid = memory.last_refusal_pid.load(kRelaxed);
  device.held_ns = compute.held_ns.load(kRelaxed);
  device.estimated_ns = compute.estimated_ns.load(kRelaxed);
  device.neighbours_ns = compute.neighbours_ns.load(kRelaxed);
  device.copy_ns = compute.copy_ns.load(kRelaxed);
  device.throttled_ns = compute.throttled_ns.load(kRelaxed);
  device.throttled_launches = compute.throttled_launches.load(kRelaxed);
  device.passed_in_debt = compute.passed_in_debt.load(kRelaxed);
  device.last_throttle_ns = compute.last_throttle_ns.load(kRelaxed);
  return device;
}

void read_processes(const ledger::UsagePage& usage, std::uint32_t device_count, Share& share) {
  for (std::uint32_t slot = 0; slot < ledger::kMaxSlots; ++slot) {
    const auto seat = ledger::view(usage, slot);
    if (seat.kind != ledger::SlotKind::live) continue;
    share.attended = true;
    if (std::string_view(seat.command) == kWaiterName) continue;
    ShareProcess process{.pid = seat.identity.pid, .command = harmless(seat.command), .held_bytes = {}};
    for (std::uint32_t device = 0; device < device_count; ++device) {
      const auto residual = usage.slots[slot].devices[device].residual_bytes.load(kRelaxed);
      process.held_bytes.push_back(ledger::held_bytes(usage, device, slot) + residual);
      share.devices[device].memory_residual_bytes += residual;
      share.devices[device].memory_used_bytes += residual;
    }
    share.processes.push_back(std::move(process));
  }
}

std::uint32_t ppm_of(std::uint64_t part_ns, std::uint64_t whole_ns) {
  if (whole_ns == 0) return 0;
  const auto ppm = static_cast<unsigned __int128>(part_ns) * 1'000'000 / whole_ns;
  return static_cast<std::uint32_t>(std::min<unsigned __int128>(ppm, 1'000'000'000));
}

}  // namespace

std::string level_text(ledger::Level level) {
  switch (level) {
    case ledger::Level::observe: return "observe";
    case ledger::Level::hook: return "hook";
    case ledger::Level::hook_container: return "hook+container";
    case ledger::Level::mps: return "mps";
    case ledger::Level::mig: return "mig";
  }
  return "unknown";
}

Error share_error(const ledger::PageFault& fault, const std::string& base, const std::string& name) {
  using enum ledger::PageError;
  std::array<char, 512> text{};
  ledger::explain(fault, text.data(), text.size(), base.c_str());
  auto code = ErrorCode::failed;
  switch (fault.error) {
    case no_permission:
    case foreign_owner:
    case open_permissions:
    case symbolic_link: code = ErrorCode::denied; break;
    case no_space:
    case slots_full: code = ErrorCode::no_capacity; break;
    case different_values:
    case bad_name:
    case bad_memory_limit:
    case bad_ceiling: code = ErrorCode::usage; break;
    case pages_newer:
    case pages_older: code = ErrorCode::unsupported; break;
    default: break;
  }
  // Whoever could not even make the share has no directory to look at.
  const std::string directory = base + "/shares/" + name;
  std::error_code ignored;
  return {code, "the share '" + harmless(name) + "': " + text.data(),
          fs::exists(directory, ignored) ? "it lies in " + directory : ""};
}

Shares read_shares(const std::string& base) {
  Shares shares;
  std::error_code error;
  for (fs::directory_iterator at(base + "/shares", error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(".")) continue;  // one being filled or removed
    Opened opened;
    if (const auto fault = ledger::open_share(base.c_str(), name.c_str(), ledger::Access::owner, opened.pages)) {
      // A share that was removed while we looked is none.
      if (fault.error != ledger::PageError::not_found)
        shares.unreadable.push_back({harmless(name), share_error(fault, base, name)});
      continue;
    }
    ledger::reap_dead(*opened.pages.usage, ledger::Remains::draining);
    const auto& policy = *opened.pages.policy;
    Share share{.name = name,
                .generation = policy.generation,
                .level = policy.level,
                .fail_policy = policy.fail_policy,
                .owner_uid = policy.owner_uid,
                .paused = policy.command.load(kRelaxed) == ledger::Command::pause,
                .draining = policy.command.load(kRelaxed) == ledger::Command::drain,
                .attended = false,
                .devices = {},
                .processes = {}};
    const std::uint32_t count = std::min(policy.device_count, ledger::kMaxDevices);
    for (std::uint32_t i = 0; i < count; ++i) share.devices.push_back(read_device(policy, *opened.pages.usage, i));
    read_processes(*opened.pages.usage, count, share);
    shares.list.push_back(std::move(share));
  }
  std::ranges::sort(shares.list, {}, &Share::name);
  shares.taken_ns = monotonic_ns();
  return shares;
}

Shares with_rates(const Shares& earlier, Shares later) {
  const std::uint64_t elapsed = later.taken_ns - earlier.taken_ns;
  for (Share& share : later.list) {
    const auto before = std::ranges::find_if(
        earlier.list, [&](const Share& old) { return old.name == share.name && old.generation == share.generation; });
    if (before == earlier.list.end()) continue;
    for (std::size_t i = 0; i < share.devices.size() && i < before->devices.size(); ++i) {
      ShareDevice& now = share.devices[i];
      const ShareDevice& then = before->devices[i];
      now.held_ppm = ppm_of(now.held_ns - std::min(now.held_ns, then.held_ns), elapsed);
      now.throttled_ppm = ppm_of(now.throttled_ns - std::min(now.throttled_ns, then.throttled_ns), elapsed);
    }
  }
  return later;
}

}  // namespace headgate::cli
