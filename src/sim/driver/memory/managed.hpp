// Managed memory: the location of its pages. Kernel accesses are not visible, so a launch touches all of it. A touched
// page moves to the GPU if there is room, and stays in host memory if that is its preferred location.
#pragma once

#include "sim/driver/memory/memory.hpp"

namespace headgate::sim::driver {

void managed_made(const Allocation& allocation);
// Returns the GPUs' memory that it occupies.
void managed_gone(std::uint64_t base);

// Records that the GPU of the allocation's context touches [at, at + bytes).
void touch_managed(std::uint64_t base, std::uint64_t at, std::uint64_t bytes);
// Called when a kernel of this context starts.
void touch_all_managed(const Context* context);

}  // namespace headgate::sim::driver
