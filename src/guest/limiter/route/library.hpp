// What the router needs to know about the loaded driver libraries beyond their functions.
#pragma once

namespace headgate::limiter {

// Fills driver (nvml) if the library is already loaded; never loads it. True where it is.
bool driver_is_loaded();
bool nvml_is_loaded();

// Whether an address lies in the loaded libcuda.so.1 (libnvidia-ml.so.1). False while it is not loaded.
bool driver_owns(const void* address);
bool nvml_owns(const void* address);

}  // namespace headgate::limiter
