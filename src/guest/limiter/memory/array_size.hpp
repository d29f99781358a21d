// The device memory of an array, as far as its descriptor tells. The driver does not report true sizes, so the rest
// (tiling, padding) is part of the residual. Layouts and format numbers: CUDA 13.0's cuda.h, compared by
// descriptor_abi_check.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headgate::limiter {

struct ArrayShape {  // CUDA_ARRAY_DESCRIPTOR_v2
  std::size_t width, height;
  unsigned format, channels;
};
struct ArrayShape_v1 {  // CUDA_ARRAY_DESCRIPTOR_v1
  unsigned width, height, format, channels;
};
struct ArrayShape3d {  // CUDA_ARRAY3D_DESCRIPTOR_v2
  std::size_t width, height, depth;
  unsigned format, channels, flags;
};
struct ArrayShape3d_v1 {  // CUDA_ARRAY3D_DESCRIPTOR_v1
  unsigned width, height, depth, format, channels, flags;
};

inline constexpr unsigned kDeferredMapping = 0x80;  // CUDA_ARRAY3D_DEFERRED_MAPPING: memory is mapped later
inline constexpr unsigned kSparse = 0x40;           // CUDA_ARRAY3D_SPARSE: the same

// Returns 0 if the driver rejects the descriptor or the array takes no memory itself. Saturates at 2^64 - 1.
std::uint64_t array_bytes(const ArrayShape3d& shape);

// Returns the size of a mipmap with `levels` levels, the first of that shape.
std::uint64_t mipmap_bytes(ArrayShape3d shape, unsigned levels);

template <typename Shape>
ArrayShape3d widened(const Shape& shape) {
  ArrayShape3d wide{shape.width, shape.height, 0, shape.format, shape.channels, 0};
  if constexpr (requires { shape.depth; }) wide.depth = shape.depth, wide.flags = shape.flags;
  return wide;
}

}  // namespace headgate::limiter
