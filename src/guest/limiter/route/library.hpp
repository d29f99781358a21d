// What the router needs to know about the loaded driver libraries besides their functions.
#pragma once

namespace headgate::limiter {

// Fills driver (nvml) if the library is already loaded; never loads it. Returns whether it is loaded.
bool driver_is_loaded();
bool nvml_is_loaded();

// Returns whether an address is in the loaded libcuda.so.1 (libnvidia-ml.so.1); false while that is not loaded.
bool driver_owns(const void* address);
bool nvml_owns(const void* address);

}  // namespace headgate::limiter
