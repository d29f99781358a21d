// Layout of an array's texels: tiles of sparse arrays, planes of planar formats.
#include <bit>

#include "sim/driver/memory/array.hpp"

namespace headgate::sim::driver {
namespace {

constexpr unsigned kSparseFlag = 0x40;  // cuda.h: CUDA_ARRAY3D_SPARSE

struct SparseProperties {  // cuda.h: CUDA_ARRAY_SPARSE_PROPERTIES
  std::uint32_t width, height, depth, tail_level;
  std::uint64_t tail_bytes;
  std::uint32_t flags, reserved[4];
};

// Tiles of 64 KiB, the standard block shapes of sparse images. 2-D: 256 x 256 texels of one byte, then height and width
// are halved in turn. 3-D: 64 x 32 x 32, then width, depth and height are halved in turn.
SparseProperties tiles(const Array& array) {
  const auto halvings = static_cast<unsigned>(std::bit_width(array.texel_bytes) - 1);
  SparseProperties found{};
  if (array.shape.depth == 0) {
    found.width = 256u >> (halvings / 2);
    found.height = 256u >> ((halvings + 1) / 2);
    found.depth = 1;
  } else {
    found.width = 64u >> ((halvings + 2) / 3);
    found.height = 32u >> (halvings / 3);
    found.depth = 32u >> ((halvings + 1) / 3);
  }
  return found;
}

}  // namespace

SIM_API CUresult cuArrayGetSparseProperties(SparseProperties* out, CUarray handle) {
  SIM_ENTER(cuArrayGetSparseProperties);
  SIM_GET(Array, array, resolve(handle, &array));
  if (!out || (array->shape.flags & kSparseFlag) == 0) return CUDA_ERROR_INVALID_VALUE;
  return give(out, tiles(*array));
}
// Planar formats cannot be created here.
SIM_API CUresult cuArrayGetPlane(CUarray*, CUarray handle, unsigned) {
  SIM_ENTER(cuArrayGetPlane);
  SIM_GET(Array, array, resolve(handle, &array));
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace headgate::sim::driver
