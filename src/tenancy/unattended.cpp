#include "tenancy/unattended.hpp"

#include <algorithm>
#include <numeric>

#include "guest/ledger/unattended_cycle.hpp"
#include "tenancy/admission.hpp"

namespace headgate::tenancy {
namespace {

std::vector<std::uint32_t> scaled_promises(std::span<const UnattendedClaim> claims, std::uint64_t promised_ppm) {
  std::vector<std::uint32_t> parts;
  for (const UnattendedClaim& claim : claims)
    parts.push_back(static_cast<std::uint32_t>(std::uint64_t{claim.promise_ppm} * ledger::kWholeGpu / promised_ppm));
  return parts;
}

// Returns the cycle that suits the kernels which the shares report, in ms. It grows at once, and shrinks only to less
// than half: a daemon that dies while it writes leaves the pages with different ones.
std::uint32_t cycle_ms(std::span<LiveShare* const> sharers, std::span<const UnattendedClaim> claims,
                       std::span<const std::uint32_t> parts, const char* uuid) {
  std::int64_t needed_ns = ledger::kMinCycleNs, present_ns = 0;
  for (std::size_t i = 0; i < sharers.size(); ++i) {
    if (sharers[i]->pages == nullptr || sharers[i]->pages->truncated()) continue;
    const ledger::PolicyPage& policy = sharers[i]->pages->policy();
    const std::uint32_t device = ledger::find_device(policy, uuid);
    if (device == ledger::kMaxDevices) continue;
    const std::int64_t kernel_ns = sharers[i]->pages->usage().compute[device].kernel_ns.load(std::memory_order_relaxed);
    if (claims[i].has_processes) needed_ns = std::max(needed_ns, ledger::cycle_for_ns(kernel_ns, parts[i]));
    present_ns = std::max(present_ns, ledger::cycle_ns_of(policy.devices[device]));
  }
  const bool kept = needed_ns <= present_ns && 2 * needed_ns >= present_ns;
  return static_cast<std::uint32_t>((kept ? present_ns : needed_ns) / 1'000'000);
}

}  // namespace

std::vector<std::uint32_t> divide_unattended(std::span<const UnattendedClaim> claims) {
  if (claims.size() == 1) return {claims.front().ceiling_ppm};
  std::uint64_t promised_ppm = 0;
  for (const UnattendedClaim& claim : claims) promised_ppm += claim.promise_ppm;
  if (promised_ppm > ledger::kWholeGpu) return scaled_promises(claims, promised_ppm);

  std::vector<std::uint32_t> parts;
  std::vector<std::size_t> takers;
  const bool idle = std::ranges::none_of(claims, &UnattendedClaim::has_processes);
  std::uint64_t weights = 0;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    parts.push_back(claims[i].promise_ppm);
    if ((!claims[i].has_processes && !idle) || claims[i].promise_ppm >= claims[i].ceiling_ppm) continue;
    takers.push_back(i);
    weights += claims[i].weight;
  }
  const auto room_ppm = [&](std::size_t i) { return std::uint64_t{claims[i].ceiling_ppm - parts[i]}; };
  // First those that lose most of their weight's part to their ceiling: then what the others get is known.
  std::ranges::sort(takers, [&](std::size_t a, std::size_t b) {
    return room_ppm(a) * claims[b].weight < room_ppm(b) * claims[a].weight;
  });
  std::uint64_t left_ppm = ledger::kWholeGpu - promised_ppm;
  const auto give = [&](std::size_t i, std::uint64_t ppm) {
    const std::uint64_t given = std::min(ppm, room_ppm(i));
    parts[i] += static_cast<std::uint32_t>(given);
    left_ppm -= given;
  };
  for (const std::size_t i : takers) {
    give(i, left_ppm * claims[i].weight / weights);
    weights -= claims[i].weight;
  }
  for (const std::size_t i : takers) give(i, left_ppm);  // what rounding left
  return parts;
}

void write_unattended(Shares& shares, const std::string& uuid, const HasProcesses& has_processes) {
  std::vector<UnattendedClaim> claims;
  std::vector<LiveShare*> sharers;
  for (auto& [name, live] : shares.list()) {
    const DeviceShare* const device = device_on(live.share, uuid);
    if (device == nullptr) continue;
    claims.push_back({.promise_ppm = live.share.overcommit ? 0 : promised_of(*device),
                      .ceiling_ppm = device->ceiling_ppm,
                      .weight = device->weight,
                      .has_processes = !live.paused() && has_processes(name)});
    sharers.push_back(&live);
  }
  const std::vector<std::uint32_t> parts = divide_unattended(claims);
  // Shares on several GPUs first: mostly they then begin at the same time on each, and their ranks meet.
  std::vector<std::size_t> order(sharers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>{}, [&](std::size_t i) { return sharers[i]->share.devices.size(); });
  const std::uint32_t cycle = cycle_ms(sharers, claims, parts, uuid.c_str());
  std::uint32_t next_ppm = 0;
  for (const std::size_t i : order) {
    const std::uint32_t from_ppm = sharers.size() == 1 ? ledger::kWholeGpu : next_ppm % ledger::kWholeGpu;
    next_ppm += parts[i];
    if (sharers[i]->pages == nullptr) continue;
    ledger::PolicyPage& policy = sharers[i]->pages->policy();
    const std::uint32_t device = ledger::find_device(policy, uuid.c_str());
    if (device == ledger::kMaxDevices) continue;
    // Limiters read it only once the daemon is gone, and need not be woken.
    policy.devices[device].compute_unattended_from_ppm.store(from_ppm, std::memory_order_relaxed);
    policy.devices[device].compute_unattended_ppm.store(std::max(parts[i], kMinUnattendedPpm),
                                                        std::memory_order_relaxed);
    policy.devices[device].compute_unattended_cycle_ms.store(cycle, std::memory_order_relaxed);
  }
}

}  // namespace headgate::tenancy
