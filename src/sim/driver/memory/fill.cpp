// Fills: cuMemsetD8, D16, D32 and their 2-D forms.
#include <cstring>

#include "sim/driver/graph/capture.hpp"
#include "sim/driver/memory/copy.hpp"
#include "sim/driver/memory/mappings.hpp"
#include "sim/driver/memory/memory.hpp"
#include "sim/driver/stream/payload.hpp"

namespace headgate::sim::driver {
namespace {

std::size_t span_of(const FillNodeParams& fill) {
  return (fill.height - 1) * fill.pitch + fill.width * fill.element_bytes;
}

// Even a plain fill is asynchronous to the host.
CUresult fill(const FillNodeParams& what, CUstream handle, bool own) {
  SIM_GET(Stream, stream, stream_of(handle, own, &stream));
  if (what.width == 0 || what.height == 0) return CUDA_SUCCESS;
  SIM_TRY(check_fill(what));
  Allocation found;
  if (find_allocation(what.to, &found) && found.managed) touch_managed(found.base, what.to, span_of(what));
  if (is_capturing(stream)) return capture_work(stream, NodeType::fill, FillWork{what, stream->context});
  return enqueue_copy(stream, CommandKind::copy_on_device, what.width * what.element_bytes * what.height, false,
                      [what] { run_fill(what); });
}

}  // namespace

CUresult check_fill(const FillNodeParams& fill) {
  const std::size_t each = fill.element_bytes, most = ~std::size_t{0} / std::max<std::size_t>(fill.height, 1);
  if ((each != 1 && each != 2 && each != 4) || fill.width == 0 || fill.height == 0) return CUDA_ERROR_INVALID_VALUE;
  if (fill.width > most / each || fill.to % each != 0) return CUDA_ERROR_INVALID_VALUE;
  if (fill.height > 1 && (fill.pitch < fill.width * each || fill.pitch > most)) return CUDA_ERROR_INVALID_VALUE;
  return is_device_address(fill.to, span_of(fill)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void run_fill(const FillNodeParams& fill) {
  for (std::size_t row = 0; row < fill.height; ++row) {
    auto* at = reinterpret_cast<std::byte*>(fill.to + row * fill.pitch);
    const std::size_t each = fill.element_bytes;
    if (each == 1) std::memset(at, static_cast<int>(fill.value), fill.width);
    else
      for (std::size_t i = 0; i < fill.width; ++i) std::memcpy(at + i * each, &fill.value, each);
  }
  refresh_flags(fill.to, span_of(fill));
}

#define SIM_FILL(bits, type)                                                                                         \
  SIM_CALL_PTDS(cuMemsetD##bits##_v2, (CUdeviceptr to, type value, std::size_t count_in),                            \
                fill({to, 0, value, sizeof value, count_in, 1}, nullptr, per_thread))                                \
  SIM_CALL_PTSZ(cuMemsetD##bits##Async, (CUdeviceptr to, type value, std::size_t count_in, CUstream stream),         \
                fill({to, 0, value, sizeof value, count_in, 1}, stream, per_thread))                                 \
  SIM_CALL_PTDS(cuMemsetD2D##bits##_v2, (CUdeviceptr to, std::size_t row, type value, std::size_t w, std::size_t h), \
                fill({to, row, value, sizeof value, w, h}, nullptr, per_thread))                                     \
  SIM_CALL_PTSZ(cuMemsetD2D##bits##Async,                                                                            \
                (CUdeviceptr to, std::size_t row, type value, std::size_t w, std::size_t h, CUstream stream),        \
                fill({to, row, value, sizeof value, w, h}, stream, per_thread))

SIM_FILL(8, unsigned char)
SIM_FILL(16, unsigned short)
SIM_FILL(32, unsigned)

}  // namespace headgate::sim::driver
