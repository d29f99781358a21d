// Sparse memory behind device addresses. Small pieces of one owner share slabs, as in a driver: a slab is taken with
// its first piece and given back with its last.
#pragma once

#include <cstdint>
#include <functional>

namespace headgate::sim::driver {

inline constexpr std::uint64_t kAlignment = 512;  // of a device address, as a driver gives
inline constexpr std::uint64_t kSlabBytes = 2 << 20;

// What the device loses by a piece: `bytes` where slabs are not modelled (slab_bytes 0), else whole slabs or nothing.
// reserve(footprint): false refuses. 0 when refused or when the address space is used up. Contents: whatever was there.
[[nodiscard]] std::uint64_t arena_take(const void* owner, std::uint64_t bytes, std::uint64_t slab_bytes,
                                       const std::function<bool(std::uint64_t)>& reserve);
// Answers the footprint that goes with it.
[[nodiscard]] std::uint64_t arena_give(std::uint64_t address, std::uint64_t bytes, std::uint64_t slab_bytes);

}  // namespace headgate::sim::driver
