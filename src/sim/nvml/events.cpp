// Event sets. The only event of a simulated device is an XID: a kernel that ended its context, or `headgate sim fault
// deviceN:xid=CODE`. Each set registered by then receives it once.
#include <time.h>

#include <array>

#include "sim/nvml/handles.hpp"
#include "sim/nvml/library.hpp"
#include "sim/nvml/wide.hpp"

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

Handles<abi::nvmlEventSet_st>& sets() {
  static auto& forever = *new Handles<abi::nvmlEventSet_st>;
  return forever;
}

bool next_event(abi::nvmlEventSet_st& set, const State& state, Happened& out) {
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

abi::nvmlReturn_t wait_for(const char* function, abi::nvmlEventSet_t set, unsigned timeout_ms, Happened& out) {
  const std::uint64_t end_ns = clock_ns() + std::uint64_t{timeout_ms} * 1'000'000;
  for (;;) {
    bool found = false;
    const auto result = answer(function, [&](Node& node) {
      if (!sets().knows(set)) return abi::NVML_ERROR_INVALID_ARGUMENT;
      Node::Locked locked(node);
      locked.advance();
      found = next_event(*set, node.state(), out);
      return abi::NVML_SUCCESS;
    });
    if (result != abi::NVML_SUCCESS || found) return result;
    const std::uint64_t now_ns = clock_ns();
    if (now_ns >= end_ns) return abi::NVML_ERROR_TIMEOUT;
    const timespec pause{0, static_cast<long>(std::min(end_ns - now_ns, kLookEveryNs))};
    ::nanosleep(&pause, nullptr);
  }
}

}  // namespace
}  // namespace headgate::sim::nvml

namespace headgate::abi {
namespace nvml = sim::nvml;
using nvml::DeviceView;

extern "C" {

SIM_GETTER(nvmlDeviceGetSupportedEventTypes, unsigned long long, nvmlEventTypeXidCriticalError)

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* set) {
  return nvml::answer("nvmlEventSetCreate", [&](sim::Node&) { return nvml::sets().make(set); });
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
  return nvml::answer("nvmlEventSetFree", [&](sim::Node&) { return nvml::sets().end(set); });
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long eventTypes, nvmlEventSet_t set) {
  return nvml::on_device("nvmlDeviceRegisterEvents", device, [&](const DeviceView& view) {
    if (!nvml::sets().knows(set)) return NVML_ERROR_INVALID_ARGUMENT;
    if ((eventTypes & ~nvmlEventTypeXidCriticalError) != 0) return NVML_ERROR_NOT_SUPPORTED;
    if (eventTypes != 0)
      set->watches[view.index()] = {true, sim::injected_xid(view.index()).epoch, view.device().xid_count};
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_v1_t* data, unsigned timeoutms) {
  if (data == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  nvml::Happened what;
  const nvmlReturn_t result = nvml::wait_for("nvmlEventSetWait", set, timeoutms, what);
  if (result == NVML_SUCCESS) *data = {nvml::handle_of(what.device), nvmlEventTypeXidCriticalError, what.xid};
  return result;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t* data, unsigned timeoutms) {
  if (data == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  nvml::Happened what;
  const nvmlReturn_t result = nvml::wait_for("nvmlEventSetWait_v2", set, timeoutms, what);
  if (result == NVML_SUCCESS) *data = {nvml::handle_of(what.device), nvmlEventTypeXidCriticalError, what.xid, ~0U, ~0U};
  return result;
}

}  // extern "C"
}  // namespace headgate::abi
