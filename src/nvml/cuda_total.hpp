// Asks CUDA for a GPU's memory size if NVML has none, because it is the host's memory (GB10, Jetson).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace headgate::nvml {

// Returns bytes, or nothing if CUDA does not know the GPU or does not answer within 10 s. Asks once per GPU, and again
// a minute after a failure, in a child process, so that this process creates no CUDA state. `nvml_path`: the NVML
// library in use; asks the libcuda.so.1 beside it, else the loader's. Thread-safe.
[[nodiscard]] std::optional<std::uint64_t> cuda_total_bytes(const std::string& uuid, const std::string& nvml_path);

}  // namespace headgate::nvml
