#include "node/unattended.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "tenancy/admission.hpp"
#include "tenancy/unattended.hpp"

namespace headgate::node {

void write_unattended(tenancy::Shares& shares, const std::string& uuid, const HasProcesses& has_processes) {
  std::vector<tenancy::UnattendedClaim> claims;
  std::vector<tenancy::LiveShare*> sharers;
  for (auto& [name, live] : shares.list()) {
    const auto device = std::ranges::find(live.share.devices, uuid, &tenancy::DeviceShare::uuid);
    if (device == live.share.devices.end()) continue;
    claims.push_back({.promise_ppm = live.share.overcommit ? 0 : tenancy::promised_of(*device),
                      .ceiling_ppm = device->ceiling_ppm,
                      .weight = device->weight,
                      .has_processes = !live.paused() && has_processes(name)});
    sharers.push_back(&live);
  }
  const std::vector<std::uint32_t> parts = tenancy::divide_unattended(claims);
  // Shares on several GPUs first: mostly they then begin at the same time on each, and their ranks meet.
  std::vector<std::size_t> order(sharers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>{}, [&](std::size_t i) { return sharers[i]->share.devices.size(); });
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
    policy.devices[device].compute_unattended_ppm.store(std::max(parts[i], tenancy::kMinUnattendedPpm),
                                                        std::memory_order_relaxed);
  }
}

}  // namespace headgate::node
