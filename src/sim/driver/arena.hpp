// Sparse memory behind device addresses. Small pieces come from shared slabs, so that an allocation costs no system call.
#pragma once

#include <cstdint>

namespace headgate::sim::driver {

inline constexpr std::uint64_t kAlignment = 512;  // of a device address, as a driver gives

// 0 when the address space is used up. Contents: whatever was there.
[[nodiscard]] std::uint64_t arena_take(std::uint64_t bytes);
void arena_give(std::uint64_t address, std::uint64_t bytes);

}  // namespace headgate::sim::driver
