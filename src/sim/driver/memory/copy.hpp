// The general copy, to which every call is converted: a box of bytes between two places. Each place is linear memory
// with a pitch, or an array.
#pragma once

#include <functional>

#include "sim/driver/graph/graph_abi.hpp"
#include "sim/driver/library.hpp"

namespace headgate::sim::driver {

enum class CopyMode { wait, wait_per_thread, async, async_per_thread };

// cuda.h: CUmemorytype.
inline constexpr unsigned kHostMemory = 1, kDeviceMemory = 2, kArrayMemory = 3, kUnifiedMemory = 4;

inline CopyEnd host_end(const void* at) { return {0, 0, 0, 0, kHostMemory, at, 0, nullptr, nullptr, 0, 0}; }
inline CopyEnd device_end(CUdeviceptr at, unsigned type = kDeviceMemory) {
  return {0, 0, 0, 0, type, nullptr, at, nullptr, nullptr, 0, 0};
}
inline CopyEnd array_end(CUarray array, std::size_t x) {
  return {x, 0, 0, 0, kArrayMemory, nullptr, 0, array, nullptr, 0, 0};
}

// Makes the driver's checks, then queues the copy.
CUresult copy_box(const CopyParams& what, CUstream stream, CopyMode mode);

// The same for a graph node, which may run often. Its source is read at each run.
struct PreparedCopy {
  CommandKind kind = CommandKind::copy_on_device;
  std::uint64_t bytes = 0;
  std::function<void()> act;
};
CUresult prepare_box(const CopyParams& what, PreparedCopy* out);

// A fill, as cuMemset* and memset nodes ask for it: INVALID_VALUE if it does not fit its memory; its effect.
CUresult check_fill(const FillNodeParams& fill);
void run_fill(const FillNodeParams& fill);

// Queues a copy engine command. `act` applies it to memory once the simulated GPU has executed it.
CUresult enqueue_copy(Stream* stream, CommandKind kind, std::uint64_t bytes, bool wait, std::function<void()> act);

}  // namespace headgate::sim::driver
