// cuArrayCreate and related calls, cuMipmappedArrayCreate and related calls.
#include "sim/driver/memory/array.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "sim/driver/memory/memory.hpp"

namespace headgate::sim::driver {
namespace {

// cuda.h: CUDA_ARRAY3D_*.
constexpr unsigned kLayered = 0x01, kCubemap = 0x04, kSparse = 0x40, kDeferred = 0x80, kKnownFlags = 0x1ff;
constexpr std::size_t kTileBytes = 64 << 10;  // unit of memory for a deferred array

struct Mipmap : Handled<0x686d6970> {
  Context* context = nullptr;
  std::uint64_t base = 0;
  std::vector<Array*> levels;
};

// Returns the bytes of a channel (CUarray_format); 0 for packed, planar and compressed formats, which are not modelled.
std::size_t channel_bytes(unsigned format) {
  constexpr std::pair<unsigned, std::size_t> kChannels[] = {{0x01, 1}, {0x02, 2}, {0x03, 4}, {0x08, 1},
                                                            {0x09, 2}, {0x0a, 4}, {0x10, 2}, {0x20, 4}};
  const auto* found = std::ranges::find(kChannels, format, &std::pair<unsigned, std::size_t>::first);
  return found == std::end(kChannels) ? 0 : found->second;
}
bool is_format(unsigned format) { return channel_bytes(format) != 0 || (format >= 0x91 && format <= 0xcb); }

CUresult check_extents(const ArrayShape& s) {
  const bool layered = (s.flags & kLayered) != 0, cube = (s.flags & kCubemap) != 0;
  if (s.width == 0 || (s.flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (s.channels != 1 && s.channels != 2 && s.channels != 4) return CUDA_ERROR_INVALID_VALUE;
  if (layered && s.depth == 0) return CUDA_ERROR_INVALID_VALUE;
  if (!layered && s.height == 0 && s.depth != 0) return CUDA_ERROR_INVALID_VALUE;
  if (cube && (s.width != s.height || s.depth % 6 != 0 || s.depth == 0 || (!layered && s.depth != 6)))
    return CUDA_ERROR_INVALID_VALUE;
  const bool solid = s.depth != 0 && !layered && !cube;
  const std::size_t widest = solid ? 16384 : layered ? 32768 : 131072;
  const std::size_t highest = solid ? 16384 : layered ? 32768 : 65536;
  const std::size_t deepest = layered ? 2048 : 16384;
  return s.width > widest || s.height > highest || s.depth > deepest ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult check_shape(const ArrayShape& shape, std::size_t* texel_bytes) {
  if (!is_format(shape.format)) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(check_extents(shape));
  *texel_bytes = channel_bytes(shape.format) * shape.channels;
  return *texel_bytes == 0 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

std::uint64_t bytes_of(const Array& array) { return array.row_bytes() * array.rows() * array.slices(); }
bool has_memory(const ArrayShape& shape) { return (shape.flags & (kSparse | kDeferred)) == 0; }

Array* make_array(Context* context, const ArrayShape& shape, std::size_t texel_bytes) {
  Array* array = recycled<Array>().take();
  array->context = context;
  array->shape = shape;
  array->texel_bytes = texel_bytes;
  array->base = 0;
  array->of_mipmap = false;
  return array;
}

CUresult create(CUarray* out, const ArrayShape& shape) {
  std::size_t texel_bytes = 0;
  SIM_GET(Context, context, current_context(&context));
  SIM_TRY(check_shape(shape, &texel_bytes));
  Array* array = make_array(context, shape, texel_bytes);
  if (has_memory(shape)) {
    const CUresult made = allocate_device(context, bytes_of(*array), false, true, &array->base);
    if (made != CUDA_SUCCESS) return recycled<Array>().give(array), made;
  }
  array->publish();
  alive<Array>().add(array);
  return give(out, array);
}

std::size_t halved(std::size_t extent) { return std::max<std::size_t>(extent / 2, extent != 0); }

ArrayShape next_level(ArrayShape shape) {
  shape.width = halved(shape.width);
  shape.height = halved(shape.height);
  if ((shape.flags & (kLayered | kCubemap)) == 0) shape.depth = halved(shape.depth);
  return shape;
}

// Clamped as in the driver.
unsigned level_count(const ArrayShape& shape, unsigned asked) {
  std::size_t most = std::max(shape.width, shape.height);
  if ((shape.flags & (kLayered | kCubemap)) == 0) most = std::max(most, shape.depth);
  return std::clamp(asked, 1u, static_cast<unsigned>(std::bit_width(most)));
}

void end_mipmap(Mipmap* mipmap) {
  for (Array* level : mipmap->levels) recycled<Array>().give(level);
  mipmap->levels.clear();
  recycled<Mipmap>().give(mipmap);
}

CUresult create_mipmap(CUmipmappedArray* out, ArrayShape shape, unsigned asked) {
  std::size_t texel_bytes = 0;
  SIM_GET(Context, context, current_context(&context));
  SIM_TRY(check_shape(shape, &texel_bytes));
  Mipmap* mipmap = recycled<Mipmap>().take();
  mipmap->context = context;
  mipmap->base = 0;
  std::uint64_t bytes = 0;
  const bool backed = has_memory(shape);
  for (unsigned i = level_count(shape, asked); i > 0; --i, shape = next_level(shape)) {
    Array* level = make_array(context, shape, texel_bytes);
    level->of_mipmap = true;
    level->base = bytes;
    bytes += bytes_of(*level);
    mipmap->levels.push_back(level);
  }
  if (backed) {
    const CUresult made = allocate_device(context, bytes, false, true, &mipmap->base);
    if (made != CUDA_SUCCESS) return end_mipmap(mipmap), made;
  }
  for (Array* level : mipmap->levels) {
    level->base = backed ? level->base + mipmap->base : 0;
    level->publish();
  }
  mipmap->publish();
  alive<Mipmap>().add(mipmap);
  return give(out, mipmap);
}

// The 2-D descriptor equals the start of the 3-D one, without depth.
struct FlatShape {
  std::size_t width, height;
  unsigned format, channels;
};

template <typename T>
T read(const void* descriptor) {
  T shape;
  std::memcpy(&shape, descriptor, sizeof shape);
  return shape;
}

struct Requirements {  // cuda.h: CUDA_ARRAY_MEMORY_REQUIREMENTS
  std::size_t size, alignment;
  unsigned reserved[4];
};

// cuda.h: only sparse and deferred arrays, which get their memory later, have requirements.
CUresult requirements(void* out, const ArrayShape& shape, std::uint64_t bytes, CUdevice device) {
  if (!out || (shape.flags & kDeferred) == 0) return CUDA_ERROR_INVALID_VALUE;
  if (device < 0 || static_cast<std::size_t>(device) >= library().visible.size()) return CUDA_ERROR_INVALID_DEVICE;
  const Requirements found{(bytes + kTileBytes - 1) / kTileBytes * kTileBytes, kTileBytes, {}};
  std::memcpy(out, &found, sizeof found);
  return CUDA_SUCCESS;
}

}  // namespace

bool is_mipmap(CUmipmappedArray handle) { return object<Mipmap>(handle) != nullptr; }

void forget_arrays(const Context* context) {
  for (Array* array : alive<Array>().remove_of(context)) recycled<Array>().give(array);
  for (Mipmap* mipmap : alive<Mipmap>().remove_of(context)) end_mipmap(mipmap);
}

SIM_API CUresult cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* descriptor) {
  SIM_ENTER(cuArrayCreate_v2, out, descriptor);
  const auto flat = read<FlatShape>(descriptor);
  return create(out, {flat.width, flat.height, 0, flat.format, flat.channels, 0});
}
SIM_API CUresult cuArray3DCreate_v2(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* descriptor) {
  SIM_ENTER(cuArray3DCreate_v2, out, descriptor);
  return create(out, read<ArrayShape>(descriptor));
}
// Removes it from the list. If two threads destroy one array, the second finds none.
SIM_API CUresult cuArrayDestroy(CUarray handle) {
  SIM_ENTER(cuArrayDestroy);
  SIM_GET(Array, array, resolve(handle, &array));
  if (array->of_mipmap || !alive<Array>().remove(array)) return CUDA_ERROR_INVALID_HANDLE;
  array->retire();
  if (array->base != 0) free_global(array->base);
  recycled<Array>().give(array);
  return CUDA_SUCCESS;
}
SIM_API CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* out, CUarray handle) {
  SIM_ENTER(cuArrayGetDescriptor_v2, out);
  SIM_GET(Array, array, resolve(handle, &array));
  const FlatShape flat{array->shape.width, array->shape.height, array->shape.format, array->shape.channels};
  std::memcpy(static_cast<void*>(out), &flat, sizeof flat);
  return CUDA_SUCCESS;
}
SIM_API CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* out, CUarray handle) {
  SIM_ENTER(cuArray3DGetDescriptor_v2, out);
  SIM_GET(Array, array, resolve(handle, &array));
  std::memcpy(static_cast<void*>(out), &array->shape, sizeof array->shape);
  return CUDA_SUCCESS;
}
SIM_API CUresult cuArrayGetMemoryRequirements(void* out, CUarray handle, CUdevice device) {
  SIM_ENTER(cuArrayGetMemoryRequirements);
  SIM_GET(Array, array, resolve(handle, &array));
  return requirements(out, array->shape, bytes_of(*array), device);
}
SIM_API CUresult cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* descriptor,
                                        unsigned levels) {
  SIM_ENTER(cuMipmappedArrayCreate, out, descriptor);
  return create_mipmap(out, read<ArrayShape>(descriptor), levels);
}
SIM_API CUresult cuMipmappedArrayGetLevel(CUarray* out, CUmipmappedArray handle, unsigned level) {
  SIM_ENTER(cuMipmappedArrayGetLevel, out);
  SIM_GET(Mipmap, mipmap, resolve(handle, &mipmap));
  if (level >= mipmap->levels.size()) return CUDA_ERROR_INVALID_VALUE;
  return give(out, mipmap->levels[level]);
}
SIM_API CUresult cuMipmappedArrayGetMemoryRequirements(void* out, CUmipmappedArray handle, CUdevice device) {
  SIM_ENTER(cuMipmappedArrayGetMemoryRequirements);
  SIM_GET(Mipmap, mipmap, resolve(handle, &mipmap));
  std::uint64_t bytes = 0;
  for (const Array* level : mipmap->levels) bytes += bytes_of(*level);
  return requirements(out, mipmap->levels.front()->shape, bytes, device);
}
SIM_API CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle) {
  SIM_ENTER(cuMipmappedArrayDestroy);
  SIM_GET(Mipmap, mipmap, resolve(handle, &mipmap));
  if (!alive<Mipmap>().remove(mipmap)) return CUDA_ERROR_INVALID_HANDLE;
  mipmap->retire();
  if (mipmap->base != 0) free_global(mipmap->base);
  end_mipmap(mipmap);
  return CUDA_SUCCESS;
}

}  // namespace headgate::sim::driver
