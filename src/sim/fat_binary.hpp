// Reads the PTX from fat binaries as nvcc lays them out. PTX is all that the simulated GPU loads.
#pragma once

#include <optional>
#include <string>

namespace headgate::sim::ptx {

// Returns the newest PTX of a container, plain or packed with LZ4; nothing if it has none, or only zstd-packed PTX. As
// in the driver, only the container's own sizes bound it.
[[nodiscard]] std::optional<std::string> ptx_of_container(const void* container);

// Returns the container that a wrapper points at.
[[nodiscard]] const void* container_of_wrapper(const void* wrapper);

}  // namespace headgate::sim::ptx
