// Arrays and mipmaps, charged by their computed size.
#include "guest/limiter/memory/array_size.hpp"
#include "guest/limiter/memory/charge.hpp"
#include "guest/limiter/route/forward.hpp"

using namespace headgate::abi;
using namespace headgate::limiter;

namespace {

std::uint64_t key_of(const void* handle) { return reinterpret_cast<std::uintptr_t>(handle); }

template <typename Shape, typename Descriptor>
const Shape& shape_of(const Descriptor* descriptor) {
  return *reinterpret_cast<const Shape*>(descriptor);
}

void destroy(CUarray array) { forward(driver.cuArrayDestroy, array); }
void destroy(CUmipmappedArray array) { forward(driver.cuMipmappedArrayDestroy, array); }

template <typename Handle, typename Allocate>
CUresult charged_array(std::uint64_t bytes, Handle* handle, Allocate allocate) {
  if (handle == nullptr || bytes == 0) return allocate();
  return charged(bytes, arrays, allocate, [=] { return key_of(*handle); }, [=] { destroy(*handle); });
}

}  // namespace

HEADGATE_HOOK CUresult cuArrayCreate(CUarray* pHandle, const CUDA_ARRAY_DESCRIPTOR_v1* pAllocateArray) {
  const auto allocate = [=] { return forward(driver.cuArrayCreate, pHandle, pAllocateArray); };
  if (pAllocateArray == nullptr) return allocate();
  return charged_array(array_bytes(widened(shape_of<ArrayShape_v1>(pAllocateArray))), pHandle, allocate);
}

HEADGATE_HOOK CUresult cuArrayCreate_v2(CUarray* pHandle, const CUDA_ARRAY_DESCRIPTOR* pAllocateArray) {
  const auto allocate = [=] { return forward(driver.cuArrayCreate_v2, pHandle, pAllocateArray); };
  if (pAllocateArray == nullptr) return allocate();
  return charged_array(array_bytes(widened(shape_of<ArrayShape>(pAllocateArray))), pHandle, allocate);
}

HEADGATE_HOOK CUresult cuArray3DCreate(CUarray* pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1* pAllocateArray) {
  const auto allocate = [=] { return forward(driver.cuArray3DCreate, pHandle, pAllocateArray); };
  if (pAllocateArray == nullptr) return allocate();
  return charged_array(array_bytes(widened(shape_of<ArrayShape3d_v1>(pAllocateArray))), pHandle, allocate);
}

HEADGATE_HOOK CUresult cuArray3DCreate_v2(CUarray* pHandle, const CUDA_ARRAY3D_DESCRIPTOR* pAllocateArray) {
  const auto allocate = [=] { return forward(driver.cuArray3DCreate_v2, pHandle, pAllocateArray); };
  if (pAllocateArray == nullptr) return allocate();
  return charged_array(array_bytes(shape_of<ArrayShape3d>(pAllocateArray)), pHandle, allocate);
}

HEADGATE_HOOK CUresult cuMipmappedArrayCreate(CUmipmappedArray* pHandle,
                                              const CUDA_ARRAY3D_DESCRIPTOR* pMipmappedArrayDesc,
                                              unsigned numMipmapLevels) {
  const auto allocate = [=] {
    return forward(driver.cuMipmappedArrayCreate, pHandle, pMipmappedArrayDesc, numMipmapLevels);
  };
  if (pMipmappedArrayDesc == nullptr) return allocate();
  return charged_array(mipmap_bytes(shape_of<ArrayShape3d>(pMipmappedArrayDesc), numMipmapLevels), pHandle, allocate);
}

HEADGATE_HOOK CUresult cuArrayDestroy(CUarray hArray) {
  return released(arrays, key_of(hArray), [=] { return forward(driver.cuArrayDestroy, hArray); });
}

HEADGATE_HOOK CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray) {
  return released(arrays, key_of(hMipmappedArray),
                  [=] { return forward(driver.cuMipmappedArrayDestroy, hMipmappedArray); });
}
