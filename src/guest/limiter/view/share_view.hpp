// What a member sees of a GPU: the share instead of the card.
#pragma once

#include <cstdint>

#include "guest/limiter/view/memory_view.hpp"

namespace headgate::limiter {

// Returns the current view of a device of the pages; refreshes this process's residual.
MemoryView share_memory(std::uint32_t device_index, std::uint64_t real_total, std::uint64_t real_free);

// Returns the total only: no clock, no NVML.
std::uint64_t share_total(std::uint32_t device_index, std::uint64_t real_total);

}  // namespace headgate::limiter
