// Physical memory and its mappings (cuMemCreate and related). Imports charge nothing: their exporter is charged as long
// as the memory exists.
#include "guest/limiter/memory/charge.hpp"
#include "guest/limiter/memory/descriptors.hpp"
#include "guest/limiter/memory/draining.hpp"
#include "guest/limiter/memory/mapped.hpp"
#include "guest/limiter/route/forward.hpp"

using namespace headgate::abi;
using namespace headgate::limiter;

namespace {

// Our refusal must not hide an error of the driver for the same request.
CUresult refused(size_t size, const CUmemAllocationProp* prop) {
  size_t granule = 0;
  const CUresult result =
      forward(driver.cuMemGetAllocationGranularity, &granule, prop, CUmemAllocationGranularity_flags{});
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_FOUND) return result;
  return granule != 0 && size % granule != 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace

HEADGATE_HOOK CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* prop,
                                   unsigned long long flags) {
  const auto allocate = [=] { return forward(driver.cuMemCreate, handle, size, prop, flags); };
  if (handle == nullptr || size == 0 || prop == nullptr) return allocate();
  const CUmemLocation& location = reinterpret_cast<const AllocationProp*>(prop)->location;
  if (location.type != kLocationDevice) return allocate();
  const Place place = place_of(location.id);
  return requested(
      place, size, allocate, [&] { mapped_created(*handle, {size, place.device_index}); },
      [=] { return refused(size, prop); });
}

HEADGATE_HOOK CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
  const CUresult result = forward(driver.cuMemRetainAllocationHandle, handle, addr);
  if (result == CUDA_SUCCESS && seated()) mapped_retained(*handle, reinterpret_cast<std::uintptr_t>(addr));
  return result;
}

// Marked before the call: if the process is killed after it, other processes may have the bytes.
HEADGATE_HOOK CUresult cuMemExportToShareableHandle(void* shareableHandle, CUmemGenericAllocationHandle handle,
                                                    CUmemAllocationHandleType handleType, unsigned long long flags) {
  Released object;
  const bool first = seated() && mapped_export(handle, object);
  if (first) note_exported(object.device_index, object.bytes);
  const CUresult result = forward(driver.cuMemExportToShareableHandle, shareableHandle, handle, handleType, flags);
  if (result == CUDA_SUCCESS || !first) return result;
  mapped_not_exported(handle);
  note_not_exported(object.device_index, object.bytes);
  return result;
}

// A driver may return the handle of an object that this process already has.
HEADGATE_HOOK CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* osHandle,
                                                      CUmemAllocationHandleType shHandleType) {
  const CUresult result = forward(driver.cuMemImportFromShareableHandle, handle, osHandle, shHandleType);
  if (result == CUDA_SUCCESS && seated()) {
    note_import();
    mapped_retained(*handle, 0);
  }
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
  const InFlightBytes in_flight(kAnyDevice);
  HandleRelease release(handle);
  const CUresult result = forward(driver.cuMemRelease, handle);
  let_go(release.settle(result == CUDA_SUCCESS));
  return result;
}

// Recorded after the driver's call: the program chooses addresses, and maps nothing there before the call returns. One
// call may unmap several adjacent mappings.
HEADGATE_HOOK CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
  const InFlightBytes in_flight(kAnyDevice);
  const CUresult result = forward(driver.cuMemUnmap, ptr, size);
  if (result != CUDA_SUCCESS || !seated()) return result;
  for (CUdeviceptr at = ptr; at - ptr < size;) {
    const std::uint64_t mapped = mapped_size(at);
    if (mapped == 0) break;
    let_go(mapped_unmapped(at));
    at += mapped;
  }
  return result;
}
