// Copies and fills: time on a copy engine of the simulated GPU, and bytes that really move.
#include <cstring>
#include <memory>

#include "sim/driver/memory.hpp"
#include "sim/driver/payload.hpp"

namespace headgate::sim::driver {

namespace {

enum class Mode { wait, wait_per_thread, async, async_per_thread };

bool per_thread(Mode mode) { return mode == Mode::wait_per_thread || mode == Mode::async_per_thread; }
bool waits(Mode mode) { return mode == Mode::wait || mode == Mode::wait_per_thread; }

CUresult enqueue(Stream* stream, CommandKind kind, std::uint64_t bytes, bool wait, std::function<void()> act) {
  count(counters(stream->context).copies);
  std::uint64_t number = 0;
  {
    const std::lock_guard guard(stream->context->lock);
    Command command;
    command.kind = kind;
    command.amount = bytes;
    SIM_TRY(submit_locked(stream, command, &number));
    add_payload(stream, number, std::move(act));
  }
  return wait ? wait_for(stream, number) : CUDA_SUCCESS;
}

// `width` bytes in each of `height` rows.
struct Rows {
  std::uint64_t to, from;
  std::size_t to_pitch, from_pitch, width, height;
};

void move_rows(const Rows& rows) {
  for (std::size_t row = 0; row < rows.height; ++row) {
    std::memmove(reinterpret_cast<void*>(rows.to + row * rows.to_pitch),
                 reinterpret_cast<const void*>(rows.from + row * rows.from_pitch), rows.width);
  }
  refresh_flags(rows.to, (rows.height - 1) * rows.to_pitch + rows.width);
}

std::size_t span_of(std::size_t pitch, const Rows& rows) { return (rows.height - 1) * pitch + rows.width; }

// From memory that is not pinned, the bytes are taken at the call, as a driver stages them.
std::function<void()> moving(const Rows& rows, bool stage) {
  if (!stage) return [rows] { move_rows(rows); };
  auto staged = std::make_shared<std::vector<std::byte>>(rows.width * rows.height);
  for (std::size_t row = 0; row < rows.height; ++row) {
    std::memcpy(staged->data() + row * rows.width, reinterpret_cast<const void*>(rows.from + row * rows.from_pitch),
                rows.width);
  }
  return [rows, staged] {
    Rows from_stage = rows;
    from_stage.from = reinterpret_cast<std::uint64_t>(staged->data());
    from_stage.from_pitch = rows.width;
    move_rows(from_stage);
  };
}

CUresult copy_rows(const Rows& rows, CommandKind kind, CUstream handle, Mode mode) {
  Stream* stream = nullptr;
  SIM_TRY(stream_of(handle, per_thread(mode), &stream));
  if (rows.width == 0 || rows.height == 0) return CUDA_SUCCESS;
  const bool to_device = kind != CommandKind::copy_to_host, from_device = kind != CommandKind::copy_to_device;
  if (to_device && !is_device_address(rows.to, span_of(rows.to_pitch, rows))) return CUDA_ERROR_INVALID_VALUE;
  if (from_device && !is_device_address(rows.from, span_of(rows.from_pitch, rows))) return CUDA_ERROR_INVALID_VALUE;
  if (!to_device && rows.to == 0) return CUDA_ERROR_INVALID_VALUE;
  if (!from_device && rows.from == 0) return CUDA_ERROR_INVALID_VALUE;
  const bool stage = !from_device && !waits(mode) && !is_pinned(rows.from, span_of(rows.from_pitch, rows));
  // A copy to pageable memory returns when it is done, even from the asynchronous call.
  const bool wait = waits(mode) || (!to_device && !is_pinned(rows.to, span_of(rows.to_pitch, rows)));
  return enqueue(stream, kind, rows.width * rows.height, wait, moving(rows, stage));
}

CUresult copy(std::uint64_t to, std::uint64_t from, std::size_t bytes, CommandKind kind, CUstream stream, Mode mode) {
  return copy_rows({to, from, bytes, bytes, bytes, 1}, kind, stream, mode);
}

std::uint64_t address(const void* host) { return reinterpret_cast<std::uint64_t>(host); }

bool on_device(std::uint64_t at) {
  Allocation found;
  return find_allocation(at, &found) && found.type == MemoryType::device;
}

// cuMemcpy: unified addresses tell the direction.
CUresult copy_any(std::uint64_t to, std::uint64_t from, std::size_t bytes, CUstream stream, Mode mode) {
  const bool to_device = on_device(to), from_device = on_device(from);
  const CommandKind kind = to_device == from_device ? CommandKind::copy_on_device
                           : to_device              ? CommandKind::copy_to_device
                                                    : CommandKind::copy_to_host;
  return copy(to, from, bytes, kind, stream, mode);
}

// cuda.h: CUDA_MEMCPY2D_v2. Memory types: 1 host, 2 device, 3 array, 4 unified.
struct Copy2D {
  std::size_t src_x, src_y;
  unsigned src_type;
  const void* src_host;
  CUdeviceptr src_device;
  void* src_array;
  std::size_t src_pitch;
  std::size_t dst_x, dst_y;
  unsigned dst_type;
  void* dst_host;
  CUdeviceptr dst_device;
  void* dst_array;
  std::size_t dst_pitch;
  std::size_t width, height;
};
static_assert(sizeof(Copy2D) == 128);

CUresult copy_2d(const CUDA_MEMCPY2D* opaque, CUstream stream, Mode mode) {
  if (!opaque) return CUDA_ERROR_INVALID_VALUE;
  Copy2D c;
  std::memcpy(&c, opaque, sizeof c);
  if (c.src_type == 3 || c.dst_type == 3) return CUDA_ERROR_NOT_SUPPORTED;
  if (c.src_type == 0 || c.src_type > 4 || c.dst_type == 0 || c.dst_type > 4) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t from_pitch = c.src_pitch ? c.src_pitch : c.width, to_pitch = c.dst_pitch ? c.dst_pitch : c.width;
  if (c.height > 1 && (from_pitch < c.width || to_pitch < c.width)) return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t from = (c.src_type == 1 ? address(c.src_host) : c.src_device) + c.src_y * from_pitch + c.src_x;
  const std::uint64_t to = (c.dst_type == 1 ? address(c.dst_host) : c.dst_device) + c.dst_y * to_pitch + c.dst_x;
  const bool to_device = c.dst_type == 2 || (c.dst_type == 4 && on_device(to));
  const bool from_device = c.src_type == 2 || (c.src_type == 4 && on_device(from));
  if (!to_device && !from_device) return CUDA_ERROR_NOT_SUPPORTED;
  const CommandKind kind = to_device && from_device ? CommandKind::copy_on_device
                           : to_device              ? CommandKind::copy_to_device
                                                    : CommandKind::copy_to_host;
  return copy_rows({to, from, to_pitch, from_pitch, c.width, c.height}, kind, stream, mode);
}

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

// A fill is asynchronous to the host even in its plain form.
template <typename T>
CUresult fill(CUdeviceptr to, std::size_t row_bytes, T value, std::size_t width, std::size_t height, CUstream handle,
              bool own) {
  Stream* stream = nullptr;
  SIM_TRY(stream_of(handle, own, &stream));
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  if (to % sizeof(T) != 0 || width > ~std::size_t{0} / sizeof(T) / height) return CUDA_ERROR_INVALID_VALUE;
  if (height > 1 && row_bytes < width * sizeof(T)) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device_address(to, (height - 1) * row_bytes + width * sizeof(T))) return CUDA_ERROR_INVALID_VALUE;
  return enqueue(stream, CommandKind::copy_on_device, width * sizeof(T) * height, false,
                 [=] { fill_rows(to, row_bytes, value, width, height); });
}

CUcontext no_context = nullptr;

}  // namespace

// The four forms of a copy: plain, per-thread default stream, and both asynchronous.
#define SIM_COPY(plain, plain_ptds, later, later_ptsz, parameters, async_parameters, expression) \
  SIM_API CUresult plain parameters {                                                            \
    SIM_ENTER(plain);                                                                            \
    [[maybe_unused]] CUstream stream = nullptr;                                                  \
    constexpr Mode mode = Mode::wait;                                                            \
    return expression;                                                                           \
  }                                                                                              \
  SIM_API CUresult plain_ptds parameters {                                                       \
    SIM_ENTER(plain_ptds);                                                                       \
    [[maybe_unused]] CUstream stream = nullptr;                                                  \
    constexpr Mode mode = Mode::wait_per_thread;                                                 \
    return expression;                                                                           \
  }                                                                                              \
  SIM_API CUresult later async_parameters {                                                      \
    SIM_ENTER(later);                                                                            \
    constexpr Mode mode = Mode::async;                                                           \
    return expression;                                                                           \
  }                                                                                              \
  SIM_API CUresult later_ptsz async_parameters {                                                 \
    SIM_ENTER(later_ptsz);                                                                       \
    constexpr Mode mode = Mode::async_per_thread;                                                \
    return expression;                                                                           \
  }

SIM_COPY(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds, cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz,
         (CUdeviceptr to, const void* from, std::size_t bytes),
         (CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream),
         copy(to, address(from), bytes, CommandKind::copy_to_device, stream, mode))
SIM_COPY(cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds, cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz,
         (void* to, CUdeviceptr from, std::size_t bytes),
         (void* to, CUdeviceptr from, std::size_t bytes, CUstream stream),
         copy(address(to), from, bytes, CommandKind::copy_to_host, stream, mode))
SIM_COPY(cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds, cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz,
         (CUdeviceptr to, CUdeviceptr from, std::size_t bytes),
         (CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream),
         copy(to, from, bytes, CommandKind::copy_on_device, stream, mode))
SIM_COPY(cuMemcpy, cuMemcpy_ptds, cuMemcpyAsync, cuMemcpyAsync_ptsz,
         (CUdeviceptr to, CUdeviceptr from, std::size_t bytes),
         (CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream),
         copy_any(to, from, bytes, stream, mode))
SIM_COPY(cuMemcpyPeer, cuMemcpyPeer_ptds, cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz,
         (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, std::size_t bytes),
         (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, std::size_t bytes,
          CUstream stream),
         to_context == no_context || from_context == no_context
             ? CUDA_ERROR_INVALID_CONTEXT
             : copy(to, from, bytes, CommandKind::copy_on_device, stream, mode))
SIM_COPY(cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz, (const CUDA_MEMCPY2D* what),
         (const CUDA_MEMCPY2D* what, CUstream stream), copy_2d(what, stream, mode))
SIM_API CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* what) {
  SIM_ENTER(cuMemcpy2DUnaligned_v2);
  return copy_2d(what, nullptr, Mode::wait);
}
SIM_API CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D* what) {
  SIM_ENTER(cuMemcpy2DUnaligned_v2_ptds);
  return copy_2d(what, nullptr, Mode::wait_per_thread);
}

#define SIM_FILL(bits, type)                                                                                           \
  SIM_API CUresult cuMemsetD##bits##_v2(CUdeviceptr to, type value, std::size_t count_in) {                            \
    SIM_ENTER(cuMemsetD##bits##_v2);                                                                                   \
    return fill<type>(to, 0, value, count_in, 1, nullptr, false);                                                      \
  }                                                                                                                    \
  SIM_API CUresult cuMemsetD##bits##_v2_ptds(CUdeviceptr to, type value, std::size_t count_in) {                       \
    SIM_ENTER(cuMemsetD##bits##_v2_ptds);                                                                              \
    return fill<type>(to, 0, value, count_in, 1, nullptr, true);                                                       \
  }                                                                                                                    \
  SIM_API CUresult cuMemsetD##bits##Async(CUdeviceptr to, type value, std::size_t count_in, CUstream stream) {         \
    SIM_ENTER(cuMemsetD##bits##Async);                                                                                 \
    return fill<type>(to, 0, value, count_in, 1, stream, false);                                                       \
  }                                                                                                                    \
  SIM_API CUresult cuMemsetD##bits##Async_ptsz(CUdeviceptr to, type value, std::size_t count_in, CUstream stream) {    \
    SIM_ENTER(cuMemsetD##bits##Async_ptsz);                                                                            \
    return fill<type>(to, 0, value, count_in, 1, stream, true);                                                        \
  }                                                                                                                    \
  SIM_API CUresult cuMemsetD2D##bits##_v2(CUdeviceptr to, std::size_t row, type value, std::size_t w, std::size_t h) { \
    SIM_ENTER(cuMemsetD2D##bits##_v2);                                                                                 \
    return fill<type>(to, row, value, w, h, nullptr, false);                                                           \
  }                                                                                                                    \
  SIM_API CUresult cuMemsetD2D##bits##_v2_ptds(CUdeviceptr to, std::size_t row, type value, std::size_t w,             \
                                               std::size_t h) {                                                        \
    SIM_ENTER(cuMemsetD2D##bits##_v2_ptds);                                                                            \
    return fill<type>(to, row, value, w, h, nullptr, true);                                                            \
  }                                                                                                                    \
  SIM_API CUresult cuMemsetD2D##bits##Async(CUdeviceptr to, std::size_t row, type value, std::size_t w, std::size_t h, \
                                            CUstream stream) {                                                         \
    SIM_ENTER(cuMemsetD2D##bits##Async);                                                                               \
    return fill<type>(to, row, value, w, h, stream, false);                                                            \
  }                                                                                                                    \
  SIM_API CUresult cuMemsetD2D##bits##Async_ptsz(CUdeviceptr to, std::size_t row, type value, std::size_t w,           \
                                                 std::size_t h, CUstream stream) {                                     \
    SIM_ENTER(cuMemsetD2D##bits##Async_ptsz);                                                                          \
    return fill<type>(to, row, value, w, h, stream, true);                                                             \
  }

SIM_FILL(8, unsigned char)
SIM_FILL(16, unsigned short)
SIM_FILL(32, unsigned)

}  // namespace headgate::sim::driver
