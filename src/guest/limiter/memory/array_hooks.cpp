// Arrays and mipmaps, charged by their computed size.
#include "guest/limiter/memory/array_size.hpp"
#include "guest/limiter/memory/charge.hpp"
#include "guest/limiter/route/forward.hpp"

using namespace headgate::abi;
using namespace headgate::limiter;

namespace {

std::uint64_t key_of(const void* handle) { return reinterpret_cast<std::uintptr_t>(handle); }

void destroy(CUarray array) { forward(driver.cuArrayDestroy, array); }
void destroy(CUmipmappedArray array) { forward(driver.cuMipmappedArrayDestroy, array); }

// An array is a mipmap of one level.
template <typename Shape, typename Descriptor, typename Handle, typename Allocate>
CUresult charged_array(const Descriptor* descriptor, unsigned levels, Handle* handle, Allocate allocate) {
  if (handle == nullptr || descriptor == nullptr) return allocate();
  const std::uint64_t bytes = mipmap_bytes(widened(*reinterpret_cast<const Shape*>(descriptor)), levels);
  if (bytes == 0) return allocate();
  return charged(bytes, arrays, allocate, [=] { return key_of(*handle); }, [=] { destroy(*handle); });
}

}  // namespace

HEADGATE_HOOK CUresult cuArrayCreate(CUarray* pHandle, const CUDA_ARRAY_DESCRIPTOR_v1* pAllocateArray) {
  return charged_array<ArrayShape_v1>(pAllocateArray, 1, pHandle,
                                      [=] { return forward(driver.cuArrayCreate, pHandle, pAllocateArray); });
}

HEADGATE_HOOK CUresult cuArrayCreate_v2(CUarray* pHandle, const CUDA_ARRAY_DESCRIPTOR* pAllocateArray) {
  return charged_array<ArrayShape>(pAllocateArray, 1, pHandle,
                                   [=] { return forward(driver.cuArrayCreate_v2, pHandle, pAllocateArray); });
}

HEADGATE_HOOK CUresult cuArray3DCreate(CUarray* pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1* pAllocateArray) {
  return charged_array<ArrayShape3d_v1>(pAllocateArray, 1, pHandle,
                                        [=] { return forward(driver.cuArray3DCreate, pHandle, pAllocateArray); });
}

HEADGATE_HOOK CUresult cuArray3DCreate_v2(CUarray* pHandle, const CUDA_ARRAY3D_DESCRIPTOR* pAllocateArray) {
  return charged_array<ArrayShape3d>(pAllocateArray, 1, pHandle,
                                     [=] { return forward(driver.cuArray3DCreate_v2, pHandle, pAllocateArray); });
}

HEADGATE_HOOK CUresult cuMipmappedArrayCreate(CUmipmappedArray* pHandle,
                                              const CUDA_ARRAY3D_DESCRIPTOR* pMipmappedArrayDesc,
                                              unsigned numMipmapLevels) {
  return charged_array<ArrayShape3d>(pMipmappedArrayDesc, numMipmapLevels, pHandle, [=] {
    return forward(driver.cuMipmappedArrayCreate, pHandle, pMipmappedArrayDesc, numMipmapLevels);
  });
}

HEADGATE_HOOK CUresult cuArrayDestroy(CUarray hArray) {
  return released(arrays, key_of(hArray), [=] { return forward(driver.cuArrayDestroy, hArray); });
}

HEADGATE_HOOK CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray) {
  return released(arrays, key_of(hMipmappedArray),
                  [=] { return forward(driver.cuMipmappedArrayDestroy, hMipmappedArray); });
}
