// What a member sees of a GPU: the share instead of the card.
#pragma once

#include <cstdint>

#include "guest/limiter/view/memory_view.hpp"

namespace headgate::limiter {

// Of a device of the pages, now: refreshes this process's residual.
MemoryView share_memory(std::uint32_t device_index, std::uint64_t real_total, std::uint64_t real_free);

// Total only: no clock, no NVML.
std::uint64_t share_total(std::uint32_t device_index, std::uint64_t real_total);

}  // namespace headgate::limiter
