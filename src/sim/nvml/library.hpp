// Steps common to every function of the simulated NVML: faults, reference count, node, handle.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "guest/abi/nvml.hpp"
#include "sim/faults.hpp"
#include "sim/node.hpp"
#include "sim/nvml/wide.hpp"

namespace headgate::sim::nvml {

using namespace headgate::abi;

// Declares the table's functions, so that a definition with another signature does not compile.
extern "C" {
#define NVML_SIM(name, kind, parameters) __attribute__((visibility("default"))) nvmlReturn_t name parameters;
#define NVML_FN(name, kind, parameters, arguments) NVML_SIM(name, kind, parameters)
#include "guest/abi/nvml_table.def"
__attribute__((visibility("default"))) const char* nvmlErrorString(nvmlReturn_t result);
}

// The library's state: open between the first nvmlInit and the last nvmlShutdown. Hold `mutex` while using `node`.
struct Library {
  std::mutex mutex;
  std::uint64_t users = 0;
  std::unique_ptr<Node> node;
};
[[nodiscard]] Library& library();

[[nodiscard]] nvmlDevice_t handle_of(std::uint32_t index);
// Decodes a handle that any node could have returned, without checking that this node has the device.
[[nodiscard]] std::optional<std::uint32_t> device_of(nvmlDevice_t handle);
// Returns true and sets `index` if it is a handle of one of this node's devices.
[[nodiscard]] bool index_of(const Profile& profile, nvmlDevice_t handle, std::uint32_t& index);

// A MIG slice has a separate handle: slice `slice` in the profile's list, on GPU `index`.
struct SliceOfDevice {
  std::uint32_t index, slice;
};
[[nodiscard]] nvmlDevice_t handle_of(SliceOfDevice slice);
[[nodiscard]] std::optional<SliceOfDevice> slice_of(const Profile& profile, nvmlDevice_t handle);

struct PciAddress {
  unsigned domain = 0, bus = 0, device = 0, function = 0;
};
// Returns false for a text that driver 535 does not take. It takes hexadecimal numbers as domain:bus:device.function,
// domain:bus:device and bus:device.function, with nothing behind them.
[[nodiscard]] bool split_pci_address(const char* text, PciAddress& out);

// A call's view of a device. The node is advanced to now, and locked while the view exists.
class DeviceView {
 public:
  DeviceView(Node& node, std::uint32_t index) : locked_(node), node_(node), index_(index) {}

  [[nodiscard]] std::uint32_t index() const { return index_; }
  [[nodiscard]] const Profile& profile() const { return node_.profile(); }
  [[nodiscard]] const State& state() const { return node_.state(); }
  [[nodiscard]] const Device& device() const { return node_.state().devices[index_]; }
  [[nodiscard]] State& mutable_state() const { return node_.state(); }
  [[nodiscard]] NvmlDevice& settings() const { return node_.state().nvml[index_]; }
  [[nodiscard]] std::uint32_t power_limit_mw() const {
    return settings().power_limit_mw != 0 ? settings().power_limit_mw : profile().power_default_mw;
  }
  // Returns the percentage of [from_ns, now) with a kernel running, by whole history buckets; at most the last second.
  [[nodiscard]] unsigned busy_percent(const History& history, std::uint64_t from_ns = 0) const;
  [[nodiscard]] unsigned busy_percent() const { return busy_percent(node_.state().device_history[index_]); }

 private:
  Node::Advanced locked_;
  Node& node_;
  std::uint32_t index_;
};

// Copies text with its NUL. INSUFFICIENT_SIZE if it does not fit, INVALID_ARGUMENT for NULL.
[[nodiscard]] nvmlReturn_t give_text(std::string_view text, char* out, unsigned length);

// A call for one device. `needed`: arguments that must not be NULL, else INVALID_ARGUMENT. `function`: the exported
// function that makes the call, unless it names another.
struct DeviceCall {
  DeviceCall(nvmlDevice_t called_for, std::initializer_list<const void*> needed = {},
             const char* caller = __builtin_FUNCTION())
      : device(called_for), complete(std::ranges::count(needed, nullptr) == 0), function(caller) {}
  nvmlDevice_t device;
  bool complete;
  const char* function;
};
using Slice = std::optional<std::uint32_t>;

// Calls `body`, which returns a status, or nothing for SUCCESS.
template <typename Body, typename... Arguments>
nvmlReturn_t status_of(Body& body, Arguments&&... arguments) {
  if constexpr (std::is_void_v<std::invoke_result_t<Body&, Arguments...>>) return body(arguments...), NVML_SUCCESS;
  else return static_cast<nvmlReturn_t>(body(arguments...));
}

template <typename Body>
nvmlReturn_t answer(Body&& body, const char* function = __builtin_FUNCTION()) {
  if (const std::uint32_t code = fault(function)) return static_cast<nvmlReturn_t>(code);
  Library& open = library();
  const std::lock_guard lock(open.mutex);
  return open.users == 0 ? NVML_ERROR_UNINITIALIZED : status_of(body, *open.node);
}

// Calls `body` with a DeviceView and, for a slice's handle, the slice's number. Returns GPU_IS_LOST for a lost device
// and its slices, INVALID_ARGUMENT for an unknown handle. `no_slices`: returns NOT_SUPPORTED for a slice.
template <typename Body>
nvmlReturn_t on_device_or_slice(DeviceCall call, Body&& body, bool no_slices = false) {
  // Not under the library's mutex: a rule that delays one GPU's calls must not delay another's.
  if (const auto device = device_of(call.device))
    if (const std::uint32_t code = fault_on(call.function, *device)) return static_cast<nvmlReturn_t>(code);
  const auto look = [&](Node& node) {
    std::uint32_t index = 0;
    Slice slice;
    if (const auto found = slice_of(node.profile(), call.device)) index = found->index, slice = found->slice;
    else if (!index_of(node.profile(), call.device, index)) return NVML_ERROR_INVALID_ARGUMENT;
    const DeviceView view(node, index);
    if (device_lost(index)) return NVML_ERROR_GPU_IS_LOST;
    if (slice && no_slices) return NVML_ERROR_NOT_SUPPORTED;
    return call.complete ? status_of(body, view, slice) : NVML_ERROR_INVALID_ARGUMENT;
  };
  return answer(look, call.function);
}

// For functions that MIG slices do not support, which is most of them.
template <typename Body>
nvmlReturn_t on_device(DeviceCall call, Body&& body) {
  return on_device_or_slice(call, [&](const DeviceView& view, Slice) { return body(view); }, true);
}

// Returns one value that depends on the node. INVALID_ARGUMENT if `out` is NULL.
template <typename Value, typename Body>
nvmlReturn_t node_value(Value* out, Body&& body, const char* function = __builtin_FUNCTION()) {
  const auto tell = [&](Node& node) {
    if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    *out = static_cast<Value>(body(node));
    return NVML_SUCCESS;
  };
  return answer(tell, function);
}

// Returns one value that depends on the device. INVALID_ARGUMENT if `out` is NULL.
template <typename Value, typename Body>
nvmlReturn_t value_of(DeviceCall call, Value* out, Body&& body) {
  call.complete = out != nullptr;
  return on_device(call, [&](const DeviceView& view) { *out = static_cast<Value>(body(view)); });
}

// Returns a text that depends on the device. INSUFFICIENT_SIZE if it does not fit, INVALID_ARGUMENT if `out` is NULL.
template <typename Body>
nvmlReturn_t text_of(DeviceCall call, char* out, unsigned length, Body&& body) {
  return on_device(call, [&](const DeviceView& view) { return give_text(std::string(body(view)), out, length); });
}

// Readings of the device, computed from the node's history over the last second.
[[nodiscard]] std::uint64_t power_mw(const DeviceView& view);
[[nodiscard]] unsigned temperature_c(const DeviceView& view);
[[nodiscard]] unsigned clock_mhz(const DeviceView& view, nvmlClockType_t type);
[[nodiscard]] unsigned long long energy_mj(const DeviceView& view);
[[nodiscard]] std::uint64_t realtime_us();
// Returns the whole percentage of node time [from_ns, to_ns) during which `history` was held, by buckets.
[[nodiscard]] unsigned held_percent(const History& history, std::uint64_t from_ns, std::uint64_t to_ns);
[[nodiscard]] bool is_hopper_or_newer(const Profile& profile);
inline constexpr unsigned kMaxNvlinks = 18;  // NVML_NVLINK_MAX_LINKS
// Returns the number of NVLinks of the card; 0 if none.
[[nodiscard]] unsigned nvlinks(const Profile& profile);

// Returns one sample, stamped now, for each process that held the GPU since `last_seen_us` (at most the last second).
[[nodiscard]] std::vector<nvmlProcessUtilizationSample_t> samples_since(const DeviceView& view,
                                                                        std::uint64_t last_seen_us);

// Returns the pid to list: the one that the caller's /proc shows, else the one that the process itself sees.
[[nodiscard]] std::uint32_t shown_pid(const Account& account);

// Returns the processes with a context on the device, in order of pid.
[[nodiscard]] std::vector<const Account*> listed_by_pid(const DeviceView& view);
[[nodiscard]] nvmlProcessDetail_v1_t detail_of(const Account& account);
// Returns argv[0] from /proc if available, else the node's name for the process.
[[nodiscard]] std::string name_of(const Account& account);

// Returns a list in NVML's protocol. *count is the room on entry and the number on return. With too little room or no
// array: INSUFFICIENT_SIZE.
template <typename Entry, typename Range>
nvmlReturn_t give_list(const Range& from, unsigned* count, Entry* out) {
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const unsigned room = out == nullptr ? 0 : *count;
  *count = static_cast<unsigned>(from.size());
  if (from.size() > room) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::ranges::copy(from, out);
  return NVML_SUCCESS;
}

// As nvidia-smi sets the length of time slices; settings.cpp.
[[nodiscard]] nvmlReturn_t set_policy(nvmlDevice_t device, const NvmlExportedPolicy* wanted);

}  // namespace headgate::sim::nvml

// Defines a getter of one value. `value`: an expression of `view`.
#define SIM_GETTER(name, type, value)                                                            \
  nvmlReturn_t name(nvmlDevice_t device, type* out) {                                            \
    return value_of(device, out, []([[maybe_unused]] const DeviceView& view) { return value; }); \
  }
