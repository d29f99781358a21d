#include "sim/nvml/library.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace headgate::sim::nvml {
namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;

char handles[kMaxDevices];
char slice_handles[kMaxDevices * kMaxMigSlices];

// Prints one line to stderr, once, because NVML's status alone does not say what to do.
void say_once(const Error& error) {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  const std::string line =
      "headgate-sim: NVML: " + error.message + (error.hint.empty() ? "" : "; " + error.hint) + "\n";
  static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
}

nvmlReturn_t open_node(Library& into) {
  auto directory = node_directory();
  if (!directory) return say_once(directory.error()), NVML_ERROR_DRIVER_NOT_LOADED;
  if (auto opened = open_faults(*directory); !opened) return say_once(opened.error()), NVML_ERROR_UNKNOWN;
  auto node = Node::open(*directory);
  if (!node) {
    say_once(node.error());
    return node.error().code == ErrorCode::denied ? NVML_ERROR_NO_PERMISSION : NVML_ERROR_DRIVER_NOT_LOADED;
  }
  into.node = std::move(*node);
  return NVML_SUCCESS;
}

nvmlReturn_t initialise_library(const char* function = __builtin_FUNCTION()) {
  Library& open = library();
  const std::lock_guard lock(open.mutex);
  if (open.users == 0) {
    if (const auto result = open_node(open); result != NVML_SUCCESS) return result;
  }
  if (const std::uint32_t code = fault(function)) {
    if (open.users == 0) open.node.reset();
    return static_cast<nvmlReturn_t>(code);
  }
  ++open.users;
  return NVML_SUCCESS;
}

}  // namespace

// Never destroyed: other libraries' exit handlers may still call NVML.
Library& library() {
  static Library& only = *new Library;
  return only;
}

nvmlDevice_t handle_of(std::uint32_t index) { return reinterpret_cast<nvmlDevice_t>(&handles[index]); }

std::optional<std::uint32_t> device_of(nvmlDevice_t handle) {
  const auto offset = reinterpret_cast<std::uintptr_t>(handle) - reinterpret_cast<std::uintptr_t>(&handles[0]);
  return offset < kMaxDevices ? std::optional(static_cast<std::uint32_t>(offset)) : std::nullopt;
}

bool index_of(const Profile& profile, nvmlDevice_t handle, std::uint32_t& index) {
  const auto offset = reinterpret_cast<std::uintptr_t>(handle) - reinterpret_cast<std::uintptr_t>(&handles[0]);
  index = static_cast<std::uint32_t>(offset);
  return offset < profile.count;
}

nvmlDevice_t handle_of(SliceOfDevice slice) {
  return reinterpret_cast<nvmlDevice_t>(&slice_handles[slice.index * kMaxMigSlices + slice.slice]);
}

std::optional<SliceOfDevice> slice_of(const Profile& profile, nvmlDevice_t handle) {
  const auto offset = reinterpret_cast<std::uintptr_t>(handle) - reinterpret_cast<std::uintptr_t>(&slice_handles[0]);
  const SliceOfDevice found{static_cast<std::uint32_t>(offset / kMaxMigSlices),
                            static_cast<std::uint32_t>(offset % kMaxMigSlices)};
  if (offset >= sizeof slice_handles || found.index >= profile.count || found.slice >= profile.mig_count)
    return std::nullopt;
  return found;
}

unsigned held_percent(const History& history, std::uint64_t from_ns, std::uint64_t to_ns) {
  const std::uint64_t begin = from_ns / kBucketNs, end = to_ns / kBucketNs;
  if (begin >= end) return 0;
  std::uint64_t held = 0;
  for (std::uint64_t bucket = begin; bucket < end; ++bucket) held += held_in_bucket(history, bucket);
  const std::uint64_t span = (end - begin) * kBucketNs;
  return static_cast<unsigned>(std::min<std::uint64_t>((held * 100 + span / 2) / span, 100));
}

unsigned DeviceView::busy_percent(const History& history, std::uint64_t from_ns) const {
  const std::uint64_t now = node_.state().now_ns;
  return held_percent(history, std::max(from_ns, now > kSecondNs ? now - kSecondNs : 0), now);
}

nvmlReturn_t give_text(std::string_view text, char* out, unsigned length) {
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (length <= text.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(out, text.data(), text.size());
  out[text.size()] = 0;
  return NVML_SUCCESS;
}

extern "C" {

nvmlReturn_t nvmlInit() { return initialise_library(); }
nvmlReturn_t nvmlInit_v2() { return initialise_library(); }
nvmlReturn_t nvmlInitWithFlags(unsigned) { return initialise_library(); }

nvmlReturn_t nvmlShutdown() {
  if (const std::uint32_t code = fault("nvmlShutdown")) return static_cast<nvmlReturn_t>(code);
  Library& open = library();
  const std::lock_guard lock(open.mutex);
  if (open.users == 0) return NVML_ERROR_UNINITIALIZED;
  if (--open.users == 0) open.node.reset();
  return NVML_SUCCESS;
}

const char* nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case NVML_ERROR_ALREADY_INITIALIZED: return "Already Initialized";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT: return "Timeout";
    case NVML_ERROR_LIBRARY_NOT_FOUND: return "NVML Shared Library Not Found";
    case NVML_ERROR_FUNCTION_NOT_FOUND: return "Function Not Found";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_OPERATING_SYSTEM: return "GPU access blocked by the operating system";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
    case NVML_ERROR_UNKNOWN: break;
  }
  return "Unknown Error";
}

}  // extern "C"
}  // namespace headgate::sim::nvml
