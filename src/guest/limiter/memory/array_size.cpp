#include "guest/limiter/memory/array_size.hpp"

#include "guest/bare/saturating.hpp"

namespace headgate::limiter {
namespace {

// Bits per texel of one channel (CUarray_format). For block-compressed and planar formats: bits per texel, whatever
// `channels` is.
struct TexelBits {
  std::uint64_t bits;
  bool per_channel;
};

TexelBits texel_bits(unsigned format) {
  switch (format) {
    case 0x01:
    case 0x08: return {8, true};  // UNSIGNED_INT8, SIGNED_INT8
    case 0x02:
    case 0x09:
    case 0x10: return {16, true};  // UNSIGNED_INT16, SIGNED_INT16, HALF
    case 0x03:
    case 0x0a:
    case 0x20: return {32, true};   // UNSIGNED_INT32, SIGNED_INT32, FLOAT
    case 0xb0: return {12, false};  // NV12: 4:2:0
    case 0x91:
    case 0x92:
    case 0x97:
    case 0x98: return {4, false};  // BC1, BC4: 8 bytes per 4 x 4 block
    case 0x93:
    case 0x94:
    case 0x95:
    case 0x96:
    case 0x99:
    case 0x9a:
    case 0x9b:
    case 0x9c:
    case 0x9d:
    case 0x9e: return {8, false};  // the other BC formats: 16 bytes per block
    case 0xc0:
    case 0xc6: return {8, false};  // one normalised 8-bit channel
    case 0xc1:
    case 0xc3:
    case 0xc7:
    case 0xc9:
    case 0xa2:
    case 0xa5: return {16, false};  // 2 x 8, 1 x 16, 4:2:2 of 8
    case 0xc2:
    case 0xc4:
    case 0xc8:
    case 0xca: return {32, false};  // 4 x 8, 2 x 16
    case 0xa3:
    case 0xa4:
    case 0xa6:
    case 0xa7:
    case 0xa8:
    case 0xa9: return {32, false};  // 4:2:2 of 16, 4:4:4 packed
    case 0xc5:
    case 0xcb:
    case 0xb1: return {64, false};  // 4 x 16
    case 0x9f:
    case 0xa1:
    case 0xb2:
    case 0xb4: return {24, false};  // 4:2:0 of 16, 4:4:4 of 8
    case 0xb3:
    case 0xb5: return {48, false};  // 4:4:4 of 16
    default: return {32, true};     // unknown: rather too much than unlimited
  }
}

std::uint64_t at_least_one(std::uint64_t value) { return value == 0 ? 1 : value; }
std::size_t halved(std::size_t value) { return value > 1 ? value / 2 : value; }

}  // namespace

std::uint64_t array_bytes(const ArrayShape3d& shape) {
  if (shape.width == 0 || (shape.flags & (kDeferredMapping | kSparse)) != 0) return 0;
  const TexelBits texel = texel_bits(shape.format);
  if (texel.per_channel && shape.channels == 0) return 0;
  const std::uint64_t texels =
      bare::saturating_mul(bare::saturating_mul(shape.width, at_least_one(shape.height)), at_least_one(shape.depth));
  const std::uint64_t bits = bare::saturating_mul(texels, texel.per_channel ? texel.bits * shape.channels : texel.bits);
  return bits == ~0ull ? bits : bits / 8 + (bits % 8 != 0);
}

// By cuda.h (cuMipmappedArrayCreate), the driver creates at least one level, and none smaller than a texel, whatever
// was requested.
std::uint64_t mipmap_bytes(ArrayShape3d shape, unsigned levels) {
  // CUDA_ARRAY3D_LAYERED, _CUBEMAP: depth counts layers or faces, which do not shrink with the level.
  constexpr unsigned kLayered = 0x01, kCubemap = 0x04;
  const bool solid = (shape.flags & (kLayered | kCubemap)) == 0;
  std::uint64_t sum = 0;
  for (unsigned level = 0; level < at_least_one(levels) && level < 64; ++level) {
    sum = bare::saturating_add(sum, array_bytes(shape));
    if (shape.width <= 1 && shape.height <= 1 && (!solid || shape.depth <= 1)) break;
    shape.width = halved(shape.width);
    shape.height = halved(shape.height);
    if (solid) shape.depth = halved(shape.depth);
  }
  return sum;
}

}  // namespace headgate::limiter
