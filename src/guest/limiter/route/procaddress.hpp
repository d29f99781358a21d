// Chooses the hook for a pointer that the driver's cuGetProcAddress returned.
#pragma once

#include <cstdint>

namespace headgate::limiter {

// Returns our hook if `answered` is a governed function, else `answered`. symbol, cuda_version and flags as requested.
void* swap_pointer(void* answered, const char* symbol, int cuda_version, std::uint64_t flags);

}  // namespace headgate::limiter
