// MIG: what a card can be cut into, and what one slice of it is. A card has 7 compute and 8 memory slices; the kinds
// and their names are NVIDIA's ("MIG User Guide", supported profiles), with the memory of the card at hand: 1g.18gb on
// an H200.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/profile.hpp"

namespace headgate::sim {

inline constexpr std::uint32_t kMigComputeSlices = 7, kMigMemorySlices = 8;

// A100 (8.0) and Hopper have MIG.
[[nodiscard]] bool has_mig(const Profile& profile);
// What a GPU of this node may be cut into, smallest first; none without MIG, and no kind without a name
// of its own: a small card's would be "0gb", or that of the kind before.
[[nodiscard]] std::vector<MigSlice> mig_kinds(const Profile& profile);
// "3g.71gb", NUL terminated: compute slices, and the slice's part of the whole memory rounded to GiB.
[[nodiscard]] std::array<char, 24> mig_name(const Profile& profile, MigSlice slice);
// Its part of what firmware and driver leave, in whole MiB.
[[nodiscard]] std::uint64_t mig_memory_bytes(const Profile& profile, MigSlice slice);
// The whole card for 7 compute slices, else its eighths in pairs of SMs: 16 of an H200's 132 for one.
[[nodiscard]] std::uint32_t mig_sms(const Profile& profile, MigSlice slice);
// "MIG-8-4-4-4-12" of GPU `gpu`'s slice `slice` (from 0), as stable as the GPU's own; NUL terminated.
[[nodiscard]] std::array<char, 41> mig_uuid_text(const Profile& profile, std::uint32_t gpu, std::uint32_t slice);

}  // namespace headgate::sim
