// Fills: cuMemsetD8, D16, D32 and their 2-D forms.
#include <cstring>

#include "sim/driver/graph/capture.hpp"
#include "sim/driver/memory/copy.hpp"
#include "sim/driver/memory/managed.hpp"
#include "sim/driver/memory/mappings.hpp"
#include "sim/driver/memory/memory.hpp"
#include "sim/driver/stream/payload.hpp"

namespace headgate::sim::driver {
namespace {

template <typename T>
void fill_rows(std::uint64_t to, std::size_t row_bytes, T value, std::size_t width, std::size_t height) {
  for (std::size_t row = 0; row < height; ++row) {
    auto* at = reinterpret_cast<std::byte*>(to + row * row_bytes);
    if constexpr (sizeof(T) == 1) std::memset(at, value, width);
    else
      for (std::size_t i = 0; i < width; ++i) std::memcpy(at + i * sizeof(T), &value, sizeof(T));
  }
  refresh_flags(to, (height - 1) * row_bytes + width * sizeof(T));
}

// Even a plain fill is asynchronous to the host.
template <typename T>
CUresult fill(CUdeviceptr to, std::size_t row_bytes, T value, std::size_t width, std::size_t height, CUstream handle,
              bool own) {
  SIM_GET(Stream, stream, stream_of(handle, own, &stream));
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  if (to % sizeof(T) != 0 || width > ~std::size_t{0} / sizeof(T) / height) return CUDA_ERROR_INVALID_VALUE;
  if (height > 1 && row_bytes < width * sizeof(T)) return CUDA_ERROR_INVALID_VALUE;
  if (height > 1 && row_bytes > ~std::size_t{0} / height) return CUDA_ERROR_INVALID_VALUE;
  Allocation found;
  const std::size_t span = (height - 1) * row_bytes + width * sizeof(T);
  if (!find_allocation(to, &found) || !reaches(found, to, span)) return CUDA_ERROR_INVALID_VALUE;
  if (found.managed) touch_managed(found.base, to, span);
  if (is_capturing(stream))
    return capture_work(stream, NodeType::fill,
                        FillWork{{to, row_bytes, value, sizeof(T), width, height}, stream->context});
  return enqueue_copy(stream, CommandKind::copy_on_device, width * sizeof(T) * height, false,
                      [=] { fill_rows(to, row_bytes, value, width, height); });
}

}  // namespace

#define SIM_FILL(bits, type)                                                                                         \
  SIM_CALL_PTDS(cuMemsetD##bits##_v2, (CUdeviceptr to, type value, std::size_t count_in),                            \
                fill<type>(to, 0, value, count_in, 1, nullptr, per_thread))                                          \
  SIM_CALL_PTSZ(cuMemsetD##bits##Async, (CUdeviceptr to, type value, std::size_t count_in, CUstream stream),         \
                fill<type>(to, 0, value, count_in, 1, stream, per_thread))                                           \
  SIM_CALL_PTDS(cuMemsetD2D##bits##_v2, (CUdeviceptr to, std::size_t row, type value, std::size_t w, std::size_t h), \
                fill<type>(to, row, value, w, h, nullptr, per_thread))                                               \
  SIM_CALL_PTSZ(cuMemsetD2D##bits##Async,                                                                            \
                (CUdeviceptr to, std::size_t row, type value, std::size_t w, std::size_t h, CUstream stream),        \
                fill<type>(to, row, value, w, h, stream, per_thread))

SIM_FILL(8, unsigned char)
SIM_FILL(16, unsigned short)
SIM_FILL(32, unsigned)

}  // namespace headgate::sim::driver
