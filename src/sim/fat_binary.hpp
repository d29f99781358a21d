// Fat binaries, as nvcc lays them out: the PTX in one, which is all that the simulated GPU loads.
#pragma once

#include <optional>
#include <string>

namespace headgate::sim::ptx {

// The newest PTX of a container, plain or packed with LZ4; nothing where it has none, or only what zstd packed. As in
// the driver, nothing says where `container` ends but its own sizes.
[[nodiscard]] std::optional<std::string> ptx_of_container(const void* container);

// The container that a wrapper points at.
[[nodiscard]] const void* container_of_wrapper(const void* wrapper);

}  // namespace headgate::sim::ptx
