// Physical memory made with cuMemCreate: it is given back when the last handle reference is released and the last
// mapping is gone, in whichever order (cuda.h, cuMemRelease).
#pragma once

#include <cstdint>

#include "guest/limiter/memory/holdings.hpp"

namespace headgate::limiter {

// One physical object with one handle reference, charged already.
void mapped_created(std::uint64_t handle, Holding holding);

// One more reference to the object that `address` is mapped to (or that the handle names); nothing where it is unknown.
void mapped_retained(std::uint64_t handle, std::uint64_t address);

void mapped_at(std::uint64_t address, std::uint64_t size, std::uint64_t handle);

// Before the driver releases or unmaps: what to give back if it then succeeds is in `holding` (0 bytes: nothing).
Holding mapped_released(std::uint64_t handle);
Holding mapped_unmapped(std::uint64_t address);
// Size of the mapping that starts there; 0 where there is none of ours.
std::uint64_t mapped_size(std::uint64_t address);

void mapped_reset_after_fork();

}  // namespace headgate::limiter
