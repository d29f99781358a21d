// Any bytes give a result; an accepted profile must be one that a node can be made of.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "config/profile_toml.hpp"
#include "sim/mig.hpp"

namespace {

bool cut_fits(const headgate::sim::Profile& profile) {
  if (profile.mig_count > headgate::sim::kMaxMigSlices) return false;
  std::uint64_t bytes = 0, slices = 0;
  for (std::uint32_t i = 0; i < profile.mig_count; ++i) {
    if (profile.mig[i].compute == 0) return false;
    bytes += headgate::sim::mig_memory_bytes(profile, profile.mig[i]);
    slices += profile.mig[i].compute;
  }
  return bytes <= profile.memory_bytes && slices <= headgate::sim::kMigComputeSlices;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto profile = headgate::config::parse_profile({reinterpret_cast<const char*>(data), size}, "f");
  if (!profile) {
    if (!profile.error().message.starts_with("f:") || profile.error().hint.empty()) std::abort();
    return 0;
  }
  const bool sound =
      profile->count >= 1 && profile->count <= headgate::sim::kMaxDevices && profile->sm_count >= 1 &&
      profile->reserved_bytes + profile->context_bytes <= profile->memory_bytes &&
      profile->reserved_bytes < profile->memory_bytes && profile->power_idle_mw <= profile->power_default_mw &&
      profile->slice_ns > 0 && profile->event_step_ns > 0 && profile->host_copy_bytes_per_s > 0 &&
      profile->launch_queue_depth > 0 && std::memchr(profile->model, 0, sizeof profile->model) != nullptr &&
      std::memchr(profile->name, 0, sizeof profile->name) != nullptr && cut_fits(*profile);
  if (!sound) std::abort();
  return 0;
}
