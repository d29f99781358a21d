// Which hook stands for a pointer that the driver's cuGetProcAddress answered.
#pragma once

#include <cstdint>

namespace headgate::limiter {

// `answered` as it came, or our hook where it is a governed function's. symbol, cuda_version and flags: as asked.
void* swap_pointer(void* answered, const char* symbol, int cuda_version, std::uint64_t flags);

}  // namespace headgate::limiter
