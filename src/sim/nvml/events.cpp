// Event sets. The only event of a simulated device is an XID: a kernel that ended its context, or `headgate sim fault
// deviceN:xid=CODE`. Each set registered by then receives it once.
#include <time.h>

#include <array>

#include "sim/nvml/handles.hpp"
#include "sim/nvml/library.hpp"

// Owned by the program from Create to Free. The library's mutex guards it, except during the wait.
struct headgate::abi::nvmlEventSet_st {
  struct Watch {
    bool on = false;
    std::uint32_t seen = 0;   // epoch of the fault rules reported so far
    std::uint64_t count = 0;  // number of the node's XIDs reported so far
  };
  std::array<Watch, headgate::sim::kMaxDevices> watches{};
};

namespace headgate::sim::nvml {
namespace {

constexpr std::uint64_t kLookEveryNs = 10'000'000;

struct Happened {
  std::uint32_t device = 0, xid = 0;
};

Handles<nvmlEventSet_st>& sets() {
  static auto& forever = *new Handles<nvmlEventSet_st>;
  return forever;
}

bool next_event(nvmlEventSet_st& set, const State& state, Happened& out) {
  for (std::uint32_t i = 0; i < set.watches.size(); ++i) {
    auto& watch = set.watches[i];
    if (!watch.on) continue;
    const Device& device = state.devices[i];
    if (watch.count < device.xid_count) {
      watch.count = std::max(watch.count, device.xid_count - std::min<std::uint64_t>(device.xid_count, kKeptXids));
      out = {i, device.xids[watch.count++ % kKeptXids]};
      return true;
    }
    const InjectedXid injected = injected_xid(i);
    if (injected.epoch == watch.seen) continue;
    watch.seen = injected.epoch;
    if (injected.code == 0) continue;
    out = {i, injected.code};
    return true;
  }
  return false;
}

// Gives the event as a `Data`, which begins as nvmlEventData_v1_t does.
template <typename Data>
nvmlReturn_t wait_for(nvmlEventSet_t set, unsigned timeout_ms, Data* data, const char* function) {
  if (data == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const std::uint64_t end_ns = clock_ns() + std::uint64_t{timeout_ms} * 1'000'000;
  for (;;) {
    Happened what;
    bool found = false;
    const auto look = [&](Node& node) {
      if (!sets().knows(set)) return NVML_ERROR_INVALID_ARGUMENT;
      Node::Advanced locked(node);
      found = next_event(*set, node.state(), what);
      return NVML_SUCCESS;
    };
    if (const auto result = answer(look, function); result != NVML_SUCCESS) return result;
    if (found) {
      data->device = handle_of(what.device);
      data->eventType = nvmlEventTypeXidCriticalError;
      data->eventData = what.xid;
      return NVML_SUCCESS;
    }
    const std::uint64_t now_ns = clock_ns();
    if (now_ns >= end_ns) return NVML_ERROR_TIMEOUT;
    const timespec pause{0, static_cast<long>(std::min(end_ns - now_ns, kLookEveryNs))};
    ::nanosleep(&pause, nullptr);
  }
}

}  // namespace

extern "C" {

SIM_GETTER(nvmlDeviceGetSupportedEventTypes, unsigned long long, nvmlEventTypeXidCriticalError)

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* set) {
  return answer([&](Node&) { return sets().make(set); });
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
  return answer([&](Node&) { return sets().end(set); });
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long eventTypes, nvmlEventSet_t set) {
  return on_device(device, [&](const DeviceView& view) {
    if (!sets().knows(set)) return NVML_ERROR_INVALID_ARGUMENT;
    if ((eventTypes & ~nvmlEventTypeXidCriticalError) != 0) return NVML_ERROR_NOT_SUPPORTED;
    if (eventTypes != 0) set->watches[view.index()] = {true, injected_xid(view.index()).epoch, view.device().xid_count};
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_v1_t* data, unsigned timeoutms) {
  return wait_for(set, timeoutms, data, "nvmlEventSetWait");
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t* data, unsigned timeoutms) {
  const nvmlReturn_t result = wait_for(set, timeoutms, data, "nvmlEventSetWait_v2");
  if (result == NVML_SUCCESS) data->gpuInstanceId = data->computeInstanceId = ~0U;
  return result;
}

}  // extern "C"
}  // namespace headgate::sim::nvml
