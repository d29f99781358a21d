// How much memory a GPU has whose NVML does not say, because it is the host's memory (GB10, Jetson): CUDA says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace headgate::nvml {

// In bytes, or empty where CUDA does not know the GPU or does not answer within 10 s. Asked once for each GPU, and
// again a minute after a failure, by a child process that ends: this process makes no CUDA state. `nvml_path`: the NVML
// library that is in use; the driver beside it is asked, else the loader's libcuda.so.1. Thread-safe.
[[nodiscard]] std::optional<std::uint64_t> cuda_total_bytes(const std::string& uuid, const std::string& nvml_path);

}  // namespace headgate::nvml
