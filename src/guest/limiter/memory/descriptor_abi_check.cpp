// Compares the descriptors that memory/ reads with the real cuda.h. Built only where one is installed; no code.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <cstddef>

#include "guest/limiter/memory/array_size.hpp"
#include "guest/limiter/memory/descriptors.hpp"

namespace limiter = headgate::limiter;

#define SAME_READ(name, member, own, own_member)                                  \
  static_assert(offsetof(::name, member) == offsetof(limiter::own, own_member) && \
                sizeof(::name::member) == sizeof(limiter::own::own_member))
SAME_READ(CUDA_ARRAY_DESCRIPTOR_v2, Width, ArrayShape, width);
SAME_READ(CUDA_ARRAY_DESCRIPTOR_v2, Height, ArrayShape, height);
SAME_READ(CUDA_ARRAY_DESCRIPTOR_v2, Format, ArrayShape, format);
SAME_READ(CUDA_ARRAY_DESCRIPTOR_v2, NumChannels, ArrayShape, channels);
SAME_READ(CUDA_ARRAY_DESCRIPTOR_v1, Height, ArrayShape_v1, height);
SAME_READ(CUDA_ARRAY_DESCRIPTOR_v1, NumChannels, ArrayShape_v1, channels);
SAME_READ(CUDA_ARRAY3D_DESCRIPTOR_v2, Depth, ArrayShape3d, depth);
SAME_READ(CUDA_ARRAY3D_DESCRIPTOR_v2, Format, ArrayShape3d, format);
SAME_READ(CUDA_ARRAY3D_DESCRIPTOR_v2, Flags, ArrayShape3d, flags);
SAME_READ(CUDA_ARRAY3D_DESCRIPTOR_v1, Depth, ArrayShape3d_v1, depth);
SAME_READ(CUDA_ARRAY3D_DESCRIPTOR_v1, Flags, ArrayShape3d_v1, flags);
SAME_READ(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, size, ExternalMemoryHead, size);
SAME_READ(CUmemAllocationProp, type, AllocationProp, type);
SAME_READ(CUmemAllocationProp, location, AllocationProp, location);
static_assert(CU_MEM_LOCATION_TYPE_DEVICE == limiter::kLocationDevice);
static_assert(CUDA_ARRAY3D_SPARSE == limiter::kSparse && CUDA_ARRAY3D_DEFERRED_MAPPING == limiter::kDeferredMapping);
static_assert(CU_AD_FORMAT_HALF == 0x10 && CU_AD_FORMAT_BC1_UNORM == 0x91 && CU_AD_FORMAT_NV12 == 0xb0);
static_assert(CU_AD_FORMAT_UNORM_INT8X1 == 0xc0 && CU_AD_FORMAT_SNORM_INT16X4 == 0xcb);
