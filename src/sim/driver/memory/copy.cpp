// The driver's copy functions. Each is a box between two ends.
#include "sim/driver/memory/copy.hpp"

#include "sim/driver/memory/array.hpp"

namespace headgate::sim::driver {
namespace {

CUresult copy_line(const CopyEnd& to, const CopyEnd& from, std::size_t bytes, CUstream stream, CopyMode mode) {
  return copy_box({from, to, bytes, 1, 1}, stream, mode);
}

// cuda.h: calls that name an array by offset accept 1-D arrays only.
CUresult copy_row(const CopyEnd& to, const CopyEnd& from, std::size_t bytes, CUstream stream, CopyMode mode) {
  for (const CopyEnd* end : {&to, &from}) {
    if (end->type != kArrayMemory) continue;
    SIM_GET(Array, array, resolve(end->array, &array));
    if (array->rows() != 1 || array->slices() != 1) return CUDA_ERROR_INVALID_VALUE;
  }
  return copy_line(to, from, bytes, stream, mode);
}

CUresult known_context(void* handle) {
  Context* context = nullptr;
  return context_of(static_cast<CUcontext>(handle), &context);
}

CUresult copy_peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, std::size_t bytes,
                   CUstream stream, CopyMode mode) {
  SIM_TRY(known_context(to_context));
  SIM_TRY(known_context(from_context));
  return copy_line(device_end(to), device_end(from), bytes, stream, mode);
}

// One half of cuda.h's CUDA_MEMCPY2D_v2.
struct FlatEnd {
  std::size_t x, y;
  unsigned type;
  const void* host;
  CUdeviceptr device;
  CUarray array;
  std::size_t pitch;
};
struct Copy2D {
  FlatEnd from, to;
  std::size_t width, height;
};
static_assert(sizeof(Copy2D) == 128);

CopyEnd deepened(const FlatEnd& flat) {
  return {flat.x, flat.y, 0, 0, flat.type, flat.host, flat.device, flat.array, nullptr, flat.pitch, 0};
}

CUresult copy_2d(const Copy2D* flat, CUstream stream, CopyMode mode) {
  if (!flat) return CUDA_ERROR_INVALID_VALUE;
  return copy_box({deepened(flat->from), deepened(flat->to), flat->width, flat->height, 1}, stream, mode);
}

CUresult copy_3d(const CopyParams* what, CUstream stream, CopyMode mode) {
  if (!what || what->from.extra || what->to.extra) return CUDA_ERROR_INVALID_VALUE;
  return copy_box(*what, stream, mode);
}

CUresult copy_3d_peer(const CopyParams* what, CUstream stream, CopyMode mode) {
  if (!what) return CUDA_ERROR_INVALID_VALUE;
  CopyParams plain = *what;
  for (CopyEnd* end : {&plain.from, &plain.to}) {
    if (end->type != kArrayMemory) SIM_TRY(known_context(end->extra));
    end->extra = nullptr;
  }
  return copy_box(plain, stream, mode);
}

// First fields of cuda.h's CUmemcpyAttributes. source_order: 1 stream order, 2 during the call, 3 any.
struct Attributes {
  unsigned source_order;
  CUmemLocation from, to;
  unsigned flags;
};

bool describes_all(const Attributes* attributes, const std::size_t* first, std::size_t attribute_count,
                   std::size_t count_in) {
  if (!attributes || !first || attribute_count == 0 || attribute_count > count_in || first[0] != 0) return false;
  for (std::size_t i = 0; i < attribute_count; ++i) {
    if (attributes[i].source_order == 0 || attributes[i].source_order > 3) return false;
    if (first[i] >= count_in || (i > 0 && first[i] <= first[i - 1])) return false;
  }
  return true;
}

CUresult copy_batch(const CUdeviceptr* to, const CUdeviceptr* from, const std::size_t* sizes, std::size_t count_in,
                    const CUmemcpyAttributes* attributes, const std::size_t* first, std::size_t attribute_count,
                    std::size_t* failed, CUstream stream, CopyMode mode) {
  if (failed) *failed = ~std::size_t{0};  // means the call itself
  if (!to || !from || !sizes || count_in == 0) return CUDA_ERROR_INVALID_VALUE;
  if (!describes_all(reinterpret_cast<const Attributes*>(attributes), first, attribute_count, count_in))
    return CUDA_ERROR_INVALID_VALUE;
  const auto value = reinterpret_cast<std::uintptr_t>(stream);
  if (value == 1 || (value == 0 && mode == CopyMode::async)) return CUDA_ERROR_INVALID_VALUE;  // the legacy stream
  for (std::size_t i = 0; i < count_in; ++i) {
    if (failed) *failed = i;
    SIM_TRY(copy_line(device_end(to[i], kUnifiedMemory), device_end(from[i], kUnifiedMemory), sizes[i], stream, mode));
  }
  return CUDA_SUCCESS;
}

}  // namespace

#define SIM_COPY_AS(name, copy_mode, parameters, before, expression) \
  SIM_API CUresult name parameters {                                 \
    SIM_ENTER(name);                                                 \
    before;                                                          \
    constexpr CopyMode mode = copy_mode;                             \
    return expression;                                               \
  }
// Defines both variants of a copy that waits.
#define SIM_WAITING_COPY(name, parameters, expression)                                                        \
  SIM_COPY_AS(name, CopyMode::wait, parameters, [[maybe_unused]] CUstream stream = nullptr, expression)       \
  SIM_COPY_AS(name##_ptds, CopyMode::wait_per_thread, parameters, [[maybe_unused]] CUstream stream = nullptr, \
              expression)
// Defines the four variants of a copy: plain, per-thread default stream, and both asynchronous.
#define SIM_COPY(name, later, parameters, async_parameters, expression) \
  SIM_WAITING_COPY(name, parameters, expression)                        \
  SIM_COPY_AS(later, CopyMode::async, async_parameters, , expression)   \
  SIM_COPY_AS(later##_ptsz, CopyMode::async_per_thread, async_parameters, , expression)

SIM_COPY(cuMemcpyHtoD_v2, cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void* from, std::size_t bytes),
         (CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream),
         copy_line(device_end(to), host_end(from), bytes, stream, mode))
SIM_COPY(cuMemcpyDtoH_v2, cuMemcpyDtoHAsync_v2, (void* to, CUdeviceptr from, std::size_t bytes),
         (void* to, CUdeviceptr from, std::size_t bytes, CUstream stream),
         copy_line(host_end(to), device_end(from), bytes, stream, mode))
SIM_COPY(cuMemcpyDtoD_v2, cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, std::size_t bytes),
         (CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream),
         copy_line(device_end(to), device_end(from), bytes, stream, mode))
SIM_COPY(cuMemcpy, cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, std::size_t bytes),
         (CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream),
         copy_line(device_end(to, kUnifiedMemory), device_end(from, kUnifiedMemory), bytes, stream, mode))
SIM_COPY(cuMemcpyPeer, cuMemcpyPeerAsync,
         (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, std::size_t bytes),
         (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, std::size_t bytes,
          CUstream stream),
         copy_peer(to, to_context, from, from_context, bytes, stream, mode))
SIM_COPY(cuMemcpyHtoA_v2, cuMemcpyHtoAAsync_v2, (CUarray to, std::size_t offset, const void* from, std::size_t bytes),
         (CUarray to, std::size_t offset, const void* from, std::size_t bytes, CUstream stream),
         copy_row(array_end(to, offset), host_end(from), bytes, stream, mode))
SIM_COPY(cuMemcpyAtoH_v2, cuMemcpyAtoHAsync_v2, (void* to, CUarray from, std::size_t offset, std::size_t bytes),
         (void* to, CUarray from, std::size_t offset, std::size_t bytes, CUstream stream),
         copy_row(host_end(to), array_end(from, offset), bytes, stream, mode))
SIM_COPY(cuMemcpy2D_v2, cuMemcpy2DAsync_v2, (const Copy2D* what), (const Copy2D* what, CUstream stream),
         copy_2d(what, stream, mode))
SIM_COPY(cuMemcpy3D_v2, cuMemcpy3DAsync_v2, (const CopyParams* what), (const CopyParams* what, CUstream stream),
         copy_3d(what, stream, mode))
SIM_COPY(cuMemcpy3DPeer, cuMemcpy3DPeerAsync, (const CopyParams* what), (const CopyParams* what, CUstream stream),
         copy_3d_peer(what, stream, mode))

// These only wait.
SIM_WAITING_COPY(cuMemcpyDtoA_v2, (CUarray to, std::size_t offset, CUdeviceptr from, std::size_t bytes),
                 copy_row(array_end(to, offset), device_end(from), bytes, nullptr, mode))
SIM_WAITING_COPY(cuMemcpyAtoD_v2, (CUdeviceptr to, CUarray from, std::size_t offset, std::size_t bytes),
                 copy_row(device_end(to), array_end(from, offset), bytes, nullptr, mode))
SIM_WAITING_COPY(cuMemcpyAtoA_v2,
                 (CUarray to, std::size_t to_offset, CUarray from, std::size_t from_offset, std::size_t bytes),
                 copy_row(array_end(to, to_offset), array_end(from, from_offset), bytes, nullptr, mode))
SIM_WAITING_COPY(cuMemcpy2DUnaligned_v2, (const Copy2D* what), copy_2d(what, nullptr, mode))

constexpr CopyMode async_mode(bool per_thread) { return per_thread ? CopyMode::async_per_thread : CopyMode::async; }

// The first version reports which of the copies failed.
SIM_CALL_PTSZ(cuMemcpyBatchAsync,
              (CUdeviceptr * to, CUdeviceptr* from, std::size_t* sizes, std::size_t count_in,
               CUmemcpyAttributes* attributes, std::size_t* first, std::size_t attribute_count, std::size_t* failed,
               CUstream stream),
              copy_batch(to, from, sizes, count_in, attributes, first, attribute_count, failed, stream,
                         async_mode(per_thread)))
SIM_CALL_PTSZ(cuMemcpyBatchAsync_v2,
              (CUdeviceptr * to, CUdeviceptr* from, std::size_t* sizes, std::size_t count_in,
               CUmemcpyAttributes* attributes, std::size_t* first, std::size_t attribute_count, CUstream stream),
              copy_batch(to, from, sizes, count_in, attributes, first, attribute_count, nullptr, stream,
                         async_mode(per_thread)))

}  // namespace headgate::sim::driver
