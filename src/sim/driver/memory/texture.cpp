// Texture and surface objects: descriptions of arrays and linear memory. Simulated kernels do not read them.
#include <cstddef>
#include <map>

#include "sim/driver/memory/array.hpp"
#include "sim/driver/memory/memory.hpp"

namespace headgate::sim::driver {
namespace {

// cuda.h: CUDA_RESOURCE_DESC, CUDA_TEXTURE_DESC, CUDA_RESOURCE_VIEW_DESC.
struct ResourceDesc {
  std::uint32_t type, padding;
  union {
    CUarray array;
    CUmipmappedArray mipmap;
    struct {
      CUdeviceptr address;
      std::uint32_t format, channels;
      std::size_t bytes;
    } linear;
    struct {
      CUdeviceptr address;
      std::uint32_t format, channels;
      std::size_t width, height, pitch;
    } flat;
    std::uint32_t reserved[32];
  };
  std::uint32_t flags, spare;
};
static_assert(sizeof(ResourceDesc) == 144);
struct TextureDesc {
  std::byte bytes[104];
};
struct ViewDesc {
  std::byte bytes[112];
};

enum : std::uint32_t { kArray = 0, kMipmap = 1, kLinear = 2, kFlat = 3 };  // CUresourcetype
constexpr std::uint64_t kTextureAlignment = 512, kPitchAlignment = 32;     // same as the device attributes
constexpr unsigned kSurfaceLoadStore = 0x02;                               // CUDA_ARRAY3D_SURFACE_LDST

struct Object {
  ResourceDesc resource;
  TextureDesc texture;
  ViewDesc view;
  bool has_view, is_surface;
  std::uint64_t context_id;
};

struct Objects {
  std::mutex lock;
  std::map<std::uint64_t, Object> alive;  // by the program's handle
};
Objects& objects() { return forever<Objects>(); }

bool is_memory(CUdeviceptr address, std::uint64_t bytes, std::uint64_t alignment) {
  return address % alignment == 0 && bytes != 0 && is_device_address(address, bytes);
}

bool is_sound(const ResourceDesc& resource) {
  Array* array = nullptr;
  std::size_t bytes = 0;
  const auto& linear = resource.linear;
  const auto& flat = resource.flat;
  switch (resource.flags == 0 ? resource.type : ~0u) {
    case kArray: return resolve(resource.array, &array) == CUDA_SUCCESS;
    case kMipmap: return is_mipmap(resource.mipmap);
    case kLinear: return is_memory(linear.address, linear.bytes, kTextureAlignment);
    case kFlat:
      return flat.pitch % kPitchAlignment == 0 && !__builtin_mul_overflow(flat.pitch, flat.height, &bytes) &&
             is_memory(flat.address, bytes, kTextureAlignment);
    default: return false;
  }
}

CUresult keep(std::uint64_t* out, Object object) {
  SIM_GET(Context, context, current_context(&context));
  if (!is_sound(object.resource)) return CUDA_ERROR_INVALID_VALUE;
  object.context_id = context->id;
  const std::lock_guard guard(objects().lock);
  const std::uint64_t name = library().next_id.fetch_add(1);
  objects().alive.emplace(name, object);
  return give(out, name);
}

CUresult destroy(std::uint64_t name, bool surface) {
  SIM_GET(Context, context, current_context(&context));
  const std::lock_guard guard(objects().lock);
  const auto found = objects().alive.find(name);
  if (found == objects().alive.end() || found->second.is_surface != surface) return CUDA_ERROR_INVALID_VALUE;
  objects().alive.erase(found);
  return CUDA_SUCCESS;
}

// Copies `part` of an object to the caller.
template <typename Part>
CUresult tell(std::uint64_t name, bool surface, Part* out, Part Object::* part, bool needs_view = false) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(objects().lock);
  const auto found = objects().alive.find(name);
  if (found == objects().alive.end() || found->second.is_surface != surface) return CUDA_ERROR_INVALID_VALUE;
  if (needs_view && !found->second.has_view) return CUDA_ERROR_INVALID_VALUE;
  return give(out, found->second.*part);
}

}  // namespace

void forget_textures(const Context* context) {
  const std::lock_guard guard(objects().lock);
  std::erase_if(objects().alive, [context](const auto& one) { return one.second.context_id == context->id; });
}

SIM_API CUresult cuTexObjectCreate(std::uint64_t* out, const ResourceDesc* resource, const TextureDesc* texture,
                                   const ViewDesc* view) {
  SIM_ENTER(cuTexObjectCreate, out, resource, texture);
  if (view && resource->type != kArray && resource->type != kMipmap) return CUDA_ERROR_INVALID_VALUE;
  return keep(out, {*resource, *texture, view ? *view : ViewDesc{}, view != nullptr, false, 0});
}
SIM_CALL(cuTexObjectDestroy, (std::uint64_t object), destroy(object, false))
SIM_CALL(cuTexObjectGetResourceDesc, (ResourceDesc * out, std::uint64_t object),
         tell(object, false, out, &Object::resource))
SIM_CALL(cuTexObjectGetTextureDesc, (TextureDesc * out, std::uint64_t object),
         tell(object, false, out, &Object::texture))
SIM_CALL(cuTexObjectGetResourceViewDesc, (ViewDesc * out, std::uint64_t object),
         tell(object, false, out, &Object::view, true))
SIM_API CUresult cuSurfObjectCreate(std::uint64_t* out, const ResourceDesc* resource) {
  SIM_ENTER(cuSurfObjectCreate);
  if (!out || !resource || resource->type != kArray) return CUDA_ERROR_INVALID_VALUE;
  Array* array = nullptr;
  if (resolve(resource->array, &array) != CUDA_SUCCESS || (array->shape.flags & kSurfaceLoadStore) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  return keep(out, {*resource, {}, {}, false, true, 0});
}
SIM_CALL(cuSurfObjectDestroy, (std::uint64_t object), destroy(object, true))
SIM_CALL(cuSurfObjectGetResourceDesc, (ResourceDesc * out, std::uint64_t object),
         tell(object, true, out, &Object::resource))

}  // namespace headgate::sim::driver
