#include "observe/explanation.hpp"

#include <algorithm>

namespace headgate::observe {
namespace {

// A limiter charges a launch of unknown length as 200 us (kUnknownCommandNs in the limiter's estimates.hpp).
constexpr std::uint64_t kMinChargeNs = 100'000, kMaxChargeNs = 400'000;

}  // namespace

double counted_times(const snapshot::Snapshot& snapshot, const std::string& uuid) {
  const auto gpu = std::ranges::find(snapshot.gpus, uuid, &snapshot::Gpu::uuid);
  double sum = 0, processes = 0;
  bool mps = gpu != snapshot.gpus.end() && gpu->mps_clients > 0;
  for (const snapshot::Process& process : snapshot.processes) {
    const auto device = std::ranges::find(process.devices, uuid, &snapshot::ProcessDevice::uuid);
    if (device == process.devices.end()) continue;
    mps |= device->mps;
    if (device->driver_bytes || device->busy_ratio) ++processes;
    sum += device->busy_ratio.value_or(0);
  }
  return std::max({1.0, sum, mps ? processes : 0.0});
}

bool may_be_in_flight(const StepWork& step) {
  if (!step.in_flight) return false;
  if (!step.launched) return true;
  return step.launches > 0 && step.held_ns >= kMinChargeNs * step.launches &&
         step.held_ns <= kMaxChargeNs * step.launches;
}

}  // namespace headgate::observe
