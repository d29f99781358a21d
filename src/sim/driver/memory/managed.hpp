// Managed memory: where its pages are. Nobody sees what a kernel touches, so a launch touches all of it; a page that
// the GPU touches comes to the GPU while there is room, and stays in host memory where that is its preferred location.
#pragma once

#include "sim/driver/memory/memory.hpp"

namespace headgate::sim::driver {

void managed_made(const Allocation& allocation);
// What is on the GPUs goes back to them.
void managed_gone(std::uint64_t base);

// The GPU of the allocation's context touches [at, at + bytes).
void touch_managed(std::uint64_t base, std::uint64_t at, std::uint64_t bytes);
// A kernel of this context starts.
void touch_all_managed(const Context* context);

}  // namespace headgate::sim::driver
