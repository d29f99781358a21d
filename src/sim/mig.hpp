// MIG: how a card can be divided, and the size of one slice. A card has 7 compute and 8 memory slices. The kinds and
// their names are NVIDIA's ("MIG User Guide", supported profiles), with the memory of this card: 1g.18gb on an H200.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/profile.hpp"

namespace headgate::sim {

inline constexpr std::uint32_t kMigComputeSlices = 7, kMigMemorySlices = 8;

// Returns true for A100 (8.0) and for Hopper and newer.
[[nodiscard]] bool has_mig(const Profile& profile);
// Returns the kinds of slice of this node's GPUs, smallest first; none without MIG. Leaves out a kind that a small card
// would name "0gb" or like the kind before.
[[nodiscard]] std::vector<MigSlice> mig_kinds(const Profile& profile);
// Returns "3g.71gb", NUL terminated: compute slices, and the slice's part of the whole memory rounded to GiB.
[[nodiscard]] std::array<char, 24> mig_name(const Profile& profile, MigSlice slice);
// Returns the slice's part of the memory that firmware and driver leave, in whole MiB.
[[nodiscard]] std::uint64_t mig_memory_bytes(const Profile& profile, MigSlice slice);
// Returns all SMs for 7 compute slices, else eighths of them in pairs: 16 of an H200's 132 for one slice.
[[nodiscard]] std::uint32_t mig_sms(const Profile& profile, MigSlice slice);
// Returns "MIG-8-4-4-4-12" of slice `slice` (from 0) of GPU `gpu`, as stable as the GPU's UUID; NUL terminated.
[[nodiscard]] std::array<char, 41> mig_uuid_text(const Profile& profile, std::uint32_t gpu, std::uint32_t slice);

}  // namespace headgate::sim
