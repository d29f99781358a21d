// What every function of the simulated NVML goes through: faults, the reference count, the node, the handle.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "guest/abi/nvml.hpp"
#include "sim/faults.hpp"
#include "sim/node.hpp"

// The table's functions, so that a definition with another signature does not compile.
namespace headgate::abi {
extern "C" {
#define NVML_FN(name, kind, parameters, arguments) __attribute__((visibility("default"))) nvmlReturn_t name parameters;
#include "guest/abi/nvml_table.def"
__attribute__((visibility("default"))) const char* nvmlErrorString(nvmlReturn_t result);
}
}  // namespace headgate::abi

namespace headgate::sim::nvml {

// The library's state: open between the first nvmlInit and the last nvmlShutdown. `mutex` is held while `node` is used.
struct Library {
  std::mutex mutex;
  std::uint64_t users = 0;
  std::unique_ptr<Node> node;
};
[[nodiscard]] Library& library();

[[nodiscard]] abi::nvmlDevice_t handle_of(std::uint32_t index);
// Whether it is a handle of a device that this node has; then `index` is set.
[[nodiscard]] bool index_of(const Profile& profile, abi::nvmlDevice_t handle, std::uint32_t& index);

// One call that looks at a device: the node is advanced to now and locked for as long as the view lives.
class DeviceView {
 public:
  DeviceView(Node& node, std::uint32_t index) : locked_(node), node_(node), index_(index) { locked_.advance(); }

  [[nodiscard]] std::uint32_t index() const { return index_; }
  [[nodiscard]] const Profile& profile() const { return node_.profile(); }
  [[nodiscard]] const State& state() const { return node_.state(); }
  [[nodiscard]] const Device& device() const { return node_.state().devices[index_]; }
  // Percent of [from_ns, now) during which a kernel ran, 0..100, in whole history buckets; at most the last second.
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

// `body` gets a DeviceView. A lost device answers GPU_IS_LOST, an unknown handle INVALID_ARGUMENT.
template <typename Body>
abi::nvmlReturn_t on_device(const char* function, abi::nvmlDevice_t handle, Body&& body) {
  return answer(function, [&](Node& node) {
    std::uint32_t index = 0;
    if (!index_of(node.profile(), handle, index)) return abi::NVML_ERROR_INVALID_ARGUMENT;
    const DeviceView view(node, index);
    if (device_lost(index) || view.device().lost != 0) return abi::NVML_ERROR_GPU_IS_LOST;
    return static_cast<abi::nvmlReturn_t>(body(view));
  });
}

// Answers one value that depends on the device: NULL is INVALID_ARGUMENT.
template <typename Value, typename Body>
abi::nvmlReturn_t value_of(const char* function, abi::nvmlDevice_t handle, Value* out, Body&& body) {
  return on_device(function, handle, [&](const DeviceView& view) {
    if (out == nullptr) return abi::NVML_ERROR_INVALID_ARGUMENT;
    *out = static_cast<Value>(body(view));
    return abi::NVML_SUCCESS;
  });
}

// NUL-terminated copy; INSUFFICIENT_SIZE when it does not fit, NULL is INVALID_ARGUMENT.
[[nodiscard]] abi::nvmlReturn_t give_text(std::string_view text, char* out, unsigned length);

}  // namespace headgate::sim::nvml
