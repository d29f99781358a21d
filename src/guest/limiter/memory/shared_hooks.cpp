// Memory shared by two processes: IPC handles, external memory. Opening an IPC handle is free: its maker is charged.
#include <cstring>

#include "guest/limiter/memory/charge.hpp"
#include "guest/limiter/memory/descriptors.hpp"
#include "guest/limiter/memory/draining.hpp"
#include "guest/limiter/memory/mapped.hpp"
#include "guest/limiter/route/forward.hpp"

using namespace headgate::abi;
using namespace headgate::limiter;

namespace {

// External memory is stored with cuMemCreate's objects, which have even handles below this.
std::uint64_t key_of(CUexternalMemory memory) { return reinterpret_cast<std::uintptr_t>(memory) | 1ull << 62 | 1; }

}  // namespace

// Marked before the call, like an export. A second handle of the same allocation marks nothing.
HEADGATE_HOOK CUresult cuIpcGetMemHandle(CUipcMemHandle* pHandle, CUdeviceptr dptr) {
  const auto ask = [=] { return forward(driver.cuIpcGetMemHandle, pHandle, dptr); };
  if (!seated()) return ask();
  Allocation holding, known;
  CUdeviceptr base = dptr;
  if (!pointers.look(base, holding)) {
    std::size_t bytes = 0;
    if (forward(driver.cuMemGetAddressRange_v2, &base, &bytes, dptr) != CUDA_SUCCESS || !pointers.look(base, holding))
      return ask();
  }
  if (ipc_exports.look(base, known)) return ask();
  note_exported(holding.device_index, holding.bytes);
  put_ipc_export(base, holding);
  const CUresult result = ask();
  if (result != CUDA_SUCCESS && take_ipc_export(base)) note_not_exported(holding.device_index, holding.bytes);
  return result;
}

// Memory from elsewhere, such as Vulkan: the importer is charged, except for what a process of this share may have
// exported.
HEADGATE_HOOK CUresult cuImportExternalMemory(CUexternalMemory* extMem_out,
                                              const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* memHandleDesc) {
  const auto import = [=] { return forward(driver.cuImportExternalMemory, extMem_out, memHandleDesc); };
  if (extMem_out == nullptr || memHandleDesc == nullptr) return import();
  ExternalMemoryHead head;
  std::memcpy(&head, memHandleDesc, sizeof head);
  if (head.size == 0) return import();
  const Place place = current_place();
  if (place.standing == Standing::held && exported_by_share(place.device_index) >= head.size) {
    const CUresult result = import();
    if (result == CUDA_SUCCESS) note_import();
    return result;
  }
  const auto kept = [&] { mapped_created(key_of(*extMem_out), {head.size, place.device_index}); };
  return requested(place, head.size, import, kept, refusal);
}

HEADGATE_HOOK CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr* devPtr, CUexternalMemory extMem,
                                                       const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* bufferDesc) {
  const CUresult result = forward(driver.cuExternalMemoryGetMappedBuffer, devPtr, extMem, bufferDesc);
  if (result == CUDA_SUCCESS && seated()) mapped_at(*devPtr, 1, key_of(extMem));
  return result;
}

HEADGATE_HOOK CUresult cuExternalMemoryGetMappedMipmappedArray(
    CUmipmappedArray* mipmap, CUexternalMemory extMem, const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC* mipmapDesc) {
  const CUresult result = forward(driver.cuExternalMemoryGetMappedMipmappedArray, mipmap, extMem, mipmapDesc);
  if (result == CUDA_SUCCESS && seated()) mapped_at(reinterpret_cast<std::uintptr_t>(*mipmap), 1, key_of(extMem));
  return result;
}

// Mapped buffers keep the memory until they are freed.
HEADGATE_HOOK CUresult cuDestroyExternalMemory(CUexternalMemory extMem) {
  if (!seated()) return forward(driver.cuDestroyExternalMemory, extMem);
  const InFlightBytes in_flight(kAnyDevice);
  HandleRelease release(key_of(extMem));
  const CUresult result = forward(driver.cuDestroyExternalMemory, extMem);
  let_go(release.settle(result == CUDA_SUCCESS));
  return result;
}
