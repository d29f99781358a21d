// Steps common to every function of the simulated NVML: faults, reference count, node, handle.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "guest/abi/nvml.hpp"
#include "sim/faults.hpp"
#include "sim/node.hpp"

// Declares the table's functions, so that a definition with another signature does not compile.
namespace headgate::abi {
extern "C" {
#define NVML_FN(name, kind, parameters, arguments) __attribute__((visibility("default"))) nvmlReturn_t name parameters;
#include "guest/abi/nvml_table.def"
__attribute__((visibility("default"))) const char* nvmlErrorString(nvmlReturn_t result);
}
}  // namespace headgate::abi

namespace headgate::sim::nvml {

// The library's state: open between the first nvmlInit and the last nvmlShutdown. Hold `mutex` while using `node`.
struct Library {
  std::mutex mutex;
  std::uint64_t users = 0;
  std::unique_ptr<Node> node;
};
[[nodiscard]] Library& library();

[[nodiscard]] abi::nvmlDevice_t handle_of(std::uint32_t index);
// Decodes a handle that any node could have returned, without checking that this node has the device.
[[nodiscard]] std::optional<std::uint32_t> device_of(abi::nvmlDevice_t handle);
// Returns true and sets `index` if it is a handle of one of this node's devices.
[[nodiscard]] bool index_of(const Profile& profile, abi::nvmlDevice_t handle, std::uint32_t& index);

// A MIG slice has a separate handle: slice `slice` in the profile's list, on GPU `index`.
struct SliceOfDevice {
  std::uint32_t index, slice;
};
[[nodiscard]] abi::nvmlDevice_t handle_of(SliceOfDevice slice);
[[nodiscard]] std::optional<SliceOfDevice> slice_of(const Profile& profile, abi::nvmlDevice_t handle);

// A call's view of a device. The node is advanced to now, and locked while the view exists.
class DeviceView {
 public:
  DeviceView(Node& node, std::uint32_t index) : locked_(node), node_(node), index_(index) { locked_.advance(); }

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
  Node::Locked locked_;
  Node& node_;
  std::uint32_t index_;
};

template <typename Body>
abi::nvmlReturn_t answer(const char* function, Body&& body) {
  if (const std::uint32_t code = fault(function)) return static_cast<abi::nvmlReturn_t>(code);
  Library& open = library();
  const std::lock_guard lock(open.mutex);
  if (open.users == 0) return abi::NVML_ERROR_UNINITIALIZED;
  return body(*open.node);
}

// Calls `body` with a DeviceView and, for a slice's handle, the slice's number. Returns GPU_IS_LOST for a lost device
// and its slices, INVALID_ARGUMENT for an unknown handle.
template <typename Body>
abi::nvmlReturn_t on_device_or_slice(const char* function, abi::nvmlDevice_t handle, Body&& body) {
  // Not under the library's mutex: a rule that delays one GPU's calls must not delay another's.
  if (const auto device = device_of(handle))
    if (const std::uint32_t code = fault_on(function, *device)) return static_cast<abi::nvmlReturn_t>(code);
  return answer(function, [&](Node& node) {
    std::uint32_t index = 0;
    std::optional<std::uint32_t> slice;
    if (const auto found = slice_of(node.profile(), handle)) index = found->index, slice = found->slice;
    else if (!index_of(node.profile(), handle, index)) return abi::NVML_ERROR_INVALID_ARGUMENT;
    const DeviceView view(node, index);
    if (device_lost(index)) return abi::NVML_ERROR_GPU_IS_LOST;
    return static_cast<abi::nvmlReturn_t>(body(view, slice));
  });
}

// For functions that MIG slices do not support, which is most of them: returns NOT_SUPPORTED for a slice.
template <typename Body>
abi::nvmlReturn_t on_device(const char* function, abi::nvmlDevice_t handle, Body&& body) {
  return on_device_or_slice(function, handle, [&](const DeviceView& view, std::optional<std::uint32_t> slice) {
    if (slice) return abi::NVML_ERROR_NOT_SUPPORTED;
    return static_cast<abi::nvmlReturn_t>(body(view));
  });
}

// Returns one value that depends on the node. INVALID_ARGUMENT if `out` is NULL.
template <typename Value, typename Body>
abi::nvmlReturn_t node_value(const char* function, Value* out, Body&& body) {
  return answer(function, [&](Node& node) {
    if (out == nullptr) return abi::NVML_ERROR_INVALID_ARGUMENT;
    *out = static_cast<Value>(body(node));
    return abi::NVML_SUCCESS;
  });
}

// Returns one value that depends on the device. INVALID_ARGUMENT if `out` is NULL.
template <typename Value, typename Body>
abi::nvmlReturn_t value_of(const char* function, abi::nvmlDevice_t handle, Value* out, Body&& body) {
  return on_device(function, handle, [&](const DeviceView& view) {
    if (out == nullptr) return abi::NVML_ERROR_INVALID_ARGUMENT;
    *out = static_cast<Value>(body(view));
    return abi::NVML_SUCCESS;
  });
}

// Readings of the device, computed from the node's history over the last second.
[[nodiscard]] std::uint64_t power_mw(const DeviceView& view);
[[nodiscard]] unsigned temperature_c(const DeviceView& view);
[[nodiscard]] unsigned clock_mhz(const DeviceView& view, abi::nvmlClockType_t type);
[[nodiscard]] unsigned long long energy_mj(const DeviceView& view);
[[nodiscard]] std::uint64_t realtime_us();
// Returns the whole percentage of node time [from_ns, to_ns) during which `history` was held, by buckets.
[[nodiscard]] unsigned held_percent(const History& history, std::uint64_t from_ns, std::uint64_t to_ns);
[[nodiscard]] bool is_hopper_or_newer(const Profile& profile);
inline constexpr unsigned kMaxNvlinks = 18;  // NVML_NVLINK_MAX_LINKS
// Returns the number of NVLinks of the card; 0 if none.
[[nodiscard]] unsigned nvlinks(const Profile& profile);

// Returns one sample, stamped now, for each process that held the GPU since `last_seen_us` (at most the last second).
[[nodiscard]] std::vector<abi::nvmlProcessUtilizationSample_t> samples_since(const DeviceView& view,
                                                                             std::uint64_t last_seen_us);

// Returns a list in NVML's protocol. *count is the room on entry and the number on return. With too little room or no
// array: INSUFFICIENT_SIZE.
template <typename Entry, typename Range>
abi::nvmlReturn_t give_list(const Range& from, unsigned* count, Entry* out) {
  if (count == nullptr) return abi::NVML_ERROR_INVALID_ARGUMENT;
  const unsigned room = out == nullptr ? 0 : *count;
  *count = static_cast<unsigned>(from.size());
  if (from.size() > room) return abi::NVML_ERROR_INSUFFICIENT_SIZE;
  std::ranges::copy(from, out);
  return abi::NVML_SUCCESS;
}

// Copies text with its NUL. INSUFFICIENT_SIZE if it does not fit, INVALID_ARGUMENT for NULL.
[[nodiscard]] abi::nvmlReturn_t give_text(std::string_view text, char* out, unsigned length);

// As nvidia-smi sets the length of time slices; settings.cpp.
[[nodiscard]] abi::nvmlReturn_t set_policy(abi::nvmlDevice_t device, const abi::NvmlExportedPolicy* wanted);

}  // namespace headgate::sim::nvml

// Defines a getter of one value in headgate::abi. `value`: an expression of `view`.
#define SIM_GETTER(name, type, value)                                                                    \
  nvmlReturn_t name(nvmlDevice_t device, type* out) {                                                    \
    using headgate::sim::nvml::DeviceView;                                                               \
    return headgate::sim::nvml::value_of(#name, device, out,                                             \
                                         []([[maybe_unused]] const DeviceView& view) { return value; }); \
  }
