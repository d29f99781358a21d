// Any bytes: an answer; what is accepted is a node that can be made.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "config/profile_toml.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto profile = headgate::config::parse_profile({reinterpret_cast<const char*>(data), size}, "f");
  if (!profile) {
    if (!profile.error().message.starts_with("f:") || profile.error().hint.empty()) std::abort();
    return 0;
  }
  const bool sound =
      profile->count >= 1 && profile->count <= headgate::sim::kMostDevices && profile->sm_count >= 1 &&
      profile->reserved_bytes + profile->context_bytes <= profile->memory_bytes &&
      profile->reserved_bytes < profile->memory_bytes && profile->power_idle_mw <= profile->power_default_mw &&
      profile->slice_ns > 0 && profile->event_step_ns > 0 && profile->host_copy_bytes_per_s > 0 &&
      profile->launch_queue_depth > 0 && std::memchr(profile->model, 0, sizeof profile->model) != nullptr &&
      std::memchr(profile->name, 0, sizeof profile->name) != nullptr;
  if (!sound) std::abort();
  return 0;
}
