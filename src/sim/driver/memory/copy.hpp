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

// One half of cuda.h's CUDA_MEMCPY3D_v2 and CUDA_MEMCPY3D_PEER. `extra` is null in the former, a context in the latter.
struct CopyEnd {
  std::size_t x = 0, y = 0, z = 0, lod = 0;  // x in bytes
  unsigned type = 0;
  const void* host = nullptr;
  CUdeviceptr device = 0;
  CUarray array = nullptr;
  void* extra = nullptr;
  std::size_t pitch = 0, height = 0;
};
struct Copy3D {
  CopyEnd from, to;
  std::size_t width, height, depth;  // width in bytes
};
static_assert(sizeof(Copy3D) == 200);

inline CopyEnd host_end(const void* at) { return {.type = kHostMemory, .host = at}; }
inline CopyEnd device_end(CUdeviceptr at, unsigned type = kDeviceMemory) { return {.type = type, .device = at}; }
inline CopyEnd array_end(CUarray array, std::size_t x) { return {.x = x, .type = kArrayMemory, .array = array}; }

// Makes the driver's checks, then queues the copy.
CUresult copy_box(const Copy3D& what, CUstream stream, CopyMode mode);

// The same for a graph node, which may run often. Its source is read at each run.
struct PreparedCopy {
  CommandKind kind = CommandKind::copy_on_device;
  std::uint64_t bytes = 0;
  std::function<void()> act;
};
CUresult prepare_box(const Copy3D& what, PreparedCopy* out);

// A fill, as cuMemset* and memset nodes ask for it: INVALID_VALUE if it does not fit its memory; its effect.
CUresult check_fill(const FillNodeParams& fill);
void run_fill(const FillNodeParams& fill);

// Queues a copy engine command. `act` applies it to memory once the simulated GPU has executed it.
CUresult enqueue_copy(Stream* stream, CommandKind kind, std::uint64_t bytes, bool wait, std::function<void()> act);

}  // namespace headgate::sim::driver
