// Physical memory and its mappings (cuMemCreate and friends). Imports charge nothing: their exporter did.
#include "guest/limiter/memory/allocation_prop.hpp"
#include "guest/limiter/memory/charge.hpp"
#include "guest/limiter/memory/mapped.hpp"
#include "guest/limiter/route/forward.hpp"

using namespace headgate::abi;
using namespace headgate::limiter;

HEADGATE_HOOK CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* prop,
                                   unsigned long long flags) {
  const auto allocate = [=] { return forward(driver.cuMemCreate, handle, size, prop, flags); };
  if (handle == nullptr || size == 0 || prop == nullptr) return allocate();
  const CUmemLocation& location = reinterpret_cast<const AllocationProp*>(prop)->location;
  if (location.type != kLocationDevice) return allocate();
  const Place place = place_of(location.id);
  const Verdict verdict = reserve_at(place, size);
  if (verdict == Verdict::forward) return allocate();
  if (verdict == Verdict::refused) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = allocate();
  if (result == CUDA_SUCCESS) mapped_created(*handle, {size, place.device_index});
  else hand_back(place.device_index, size);
  return result;
}

HEADGATE_HOOK CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
  const CUresult result = forward(driver.cuMemRetainAllocationHandle, handle, addr);
  if (result == CUDA_SUCCESS && seated()) mapped_retained(*handle, reinterpret_cast<std::uintptr_t>(addr));
  return result;
}

HEADGATE_HOOK CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                                unsigned long long flags) {
  const CUresult result = forward(driver.cuMemMap, ptr, size, offset, handle, flags);
  if (result == CUDA_SUCCESS && seated()) mapped_at(ptr, size, handle);
  return result;
}

HEADGATE_HOOK CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  if (!seated()) return forward(driver.cuMemRelease, handle);
  HandleRelease release(handle);
  const CUresult result = forward(driver.cuMemRelease, handle);
  const Holding holding = release.settle(result == CUDA_SUCCESS);
  hand_back(holding.device_index, holding.bytes);
  return result;
}

// The books follow the driver here: addresses are the program's own to give, and it maps nothing there before the call
// has returned.
// One call may unmap several neighbouring mappings.
HEADGATE_HOOK CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
  const CUresult result = forward(driver.cuMemUnmap, ptr, size);
  if (result != CUDA_SUCCESS || !seated()) return result;
  for (CUdeviceptr at = ptr; at - ptr < size;) {
    const std::uint64_t mapped = mapped_size(at);
    if (mapped == 0) break;
    const Holding holding = mapped_unmapped(at);
    hand_back(holding.device_index, holding.bytes);
    at += mapped;
  }
  return result;
}
