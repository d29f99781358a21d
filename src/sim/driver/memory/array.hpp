// Arrays and mipmapped arrays: their shapes and their device memory. Texels lie in rows, without tiling.
#pragma once

#include "sim/driver/library.hpp"

namespace headgate::sim::driver {

// cuda.h: CUDA_ARRAY3D_DESCRIPTOR_v2 (and CUDA_ARRAY_DESCRIPTOR_v2, which lacks depth and flags).
struct ArrayShape {
  std::size_t width, height, depth;  // texels; 0 in a dimension that the array does not have
  unsigned format, channels, flags;
};

struct Array : Handled<0x68617272> {
  Context* context = nullptr;
  ArrayShape shape{};
  std::size_t texel_bytes = 0;
  std::uint64_t base = 0;  // 0: memory is mapped into it later (sparse, deferred)
  bool of_mipmap = false;

  [[nodiscard]] std::size_t row_bytes() const { return shape.width * texel_bytes; }
  [[nodiscard]] std::size_t rows() const { return shape.height == 0 ? 1 : shape.height; }
  [[nodiscard]] std::size_t slices() const { return shape.depth == 0 ? 1 : shape.depth; }
};

[[nodiscard]] bool is_mipmap(CUmipmappedArray handle);
// Ends the context's texture and surface objects.
void forget_textures(const Context* context);
// Called before a context's memory is freed: ends the handles of its arrays.
void forget_arrays(const Context* context);

}  // namespace headgate::sim::driver
