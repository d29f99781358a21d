#include "sim/mig.hpp"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "base/units.hpp"

namespace headgate::sim {
namespace {

constexpr MigSlice kKinds[] = {{1, 1}, {1, 2}, {2, 2}, {3, 4}, {4, 4}, {7, 8}};

std::uint64_t named_gib(const Profile& profile, MigSlice slice) {
  return (profile.memory_bytes * slice.memory / kMigMemorySlices + kGiB / 2) / kGiB;
}

}  // namespace

bool has_mig(const Profile& profile) {
  return profile.capability_major >= 9 || (profile.capability_major == 8 && profile.capability_minor == 0);
}

std::vector<MigSlice> mig_kinds(const Profile& profile) {
  std::vector<MigSlice> kinds;
  if (!has_mig(profile)) return kinds;
  for (const MigSlice kind : kKinds) {
    // On a small card, two kinds with one compute slice may have the same rounded name.
    const bool named = !kinds.empty() && mig_name(profile, kinds.back()) == mig_name(profile, kind);
    if (named_gib(profile, kind) > 0 && !named) kinds.push_back(kind);
  }
  return kinds;
}

std::array<char, 24> mig_name(const Profile& profile, MigSlice slice) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "%ug.%lugb", slice.compute, named_gib(profile, slice));
  return text;
}

std::uint64_t mig_memory_bytes(const Profile& profile, MigSlice slice) {
  const std::uint64_t free = profile.memory_bytes - profile.reserved_bytes;
  return free * slice.memory / kMigMemorySlices / kMiB * kMiB;
}

std::uint32_t mig_sms(const Profile& profile, MigSlice slice) {
  if (slice.compute == kMigComputeSlices) return profile.sm_count;
  return std::max(profile.sm_count * slice.compute / kMigMemorySlices / 2 * 2, 1U);
}

// Indices from kMaxDevices on, so that no slice has the UUID of a GPU.
std::array<char, 41> mig_uuid_text(const Profile& profile, std::uint32_t gpu, std::uint32_t slice) {
  auto text = uuid_text(profile, kMaxDevices + gpu * kMaxMigSlices + slice);
  std::ranges::copy(std::string_view("MIG"), text.begin());
  return text;
}

}  // namespace headgate::sim
