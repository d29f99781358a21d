// Sparse memory behind device addresses. Small pieces of one owner share slabs, as in a driver: the first piece takes a
// slab and the last returns it.
#pragma once

#include <cstdint>
#include <functional>

namespace headgate::sim::driver {

inline constexpr std::uint64_t kAlignment = 512;  // of a device address, as a driver gives
inline constexpr std::uint64_t kSlabBytes = 2 << 20;

// Takes a piece and returns its address; 0 if `reserve(footprint)` refuses or the address space is used up. Contents
// are undefined. The footprint is `bytes` if slabs are not modelled (slab_bytes 0), else whole slabs or nothing.
[[nodiscard]] std::uint64_t arena_take(const void* owner, std::uint64_t bytes, std::uint64_t slab_bytes,
                                       const std::function<bool(std::uint64_t)>& reserve);
// Returns the footprint that is freed with it.
[[nodiscard]] std::uint64_t arena_give(std::uint64_t address, std::uint64_t bytes, std::uint64_t slab_bytes);

}  // namespace headgate::sim::driver
