// External memory: imports descriptors that cuMemExportToShareableHandle made on the same node.
#include <unistd.h>
#include <cstring>

#include "sim/driver/memory/mappings.hpp"

namespace headgate::sim::driver {
namespace {

constexpr unsigned kOpaqueFd = 1;
// cuda.h: first fields of CUDA_EXTERNAL_MEMORY_HANDLE_DESC and CUDA_EXTERNAL_MEMORY_BUFFER_DESC.
struct HandleDescriptor {
  unsigned type;
  union {
    int fd;
    void* win32[2];
  } handle;
  unsigned long long bytes;
  unsigned flags;
};
struct BufferDescriptor {
  unsigned long long offset, bytes;
  unsigned flags;
};

struct External : Handled<0x6865786d> {
  std::uint64_t handle = 0, bytes = 0;
};
}  // namespace

// On success the driver owns the descriptor, as a real one does.
SIM_API CUresult cuImportExternalMemory(CUexternalMemory* out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* opaque) {
  SIM_ENTER(cuImportExternalMemory, out, opaque);
  HandleDescriptor asked;
  std::memcpy(&asked, opaque, sizeof asked);
  if (asked.type != kOpaqueFd)
    return asked.type >= 1 && asked.type <= 9 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
  if (asked.bytes == 0 || asked.flags > 1) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Context, context, current_context(&context));
  const std::lock_guard guard(physical_lock());
  const std::uint32_t shared = library().node->shared_of(asked.handle.fd);
  if (shared == kNone || asked.bytes > library().state().shared[shared].bytes) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t handle = 0;
  SIM_TRY(import_physical(shared, &handle));
  ::close(asked.handle.fd);
  External* external = recycled<External>().take();
  external->handle = handle;
  external->bytes = asked.bytes;
  external->publish();
  return give(out, external);
}
SIM_API CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr* out, CUexternalMemory memory,
                                                 const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* opaque) {
  SIM_ENTER(cuExternalMemoryGetMappedBuffer, out, opaque);
  SIM_GET(External, external, resolve(memory, &external));
  BufferDescriptor asked;
  std::memcpy(&asked, opaque, sizeof asked);
  if (asked.bytes == 0 || asked.flags != 0 || asked.offset > external->bytes ||
      asked.bytes > external->bytes - asked.offset) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  SIM_GET(Context, context, current_context(&context));
  const std::uint64_t into = asked.offset % kPage;
  const std::uint64_t bytes = (into + asked.bytes + kPage - 1) / kPage * kPage;
  const std::lock_guard guard(physical_lock());
  const std::uint64_t base = mirror(*find_physical(external->handle), asked.offset - into, bytes, 0);
  if (base == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::uint64_t all = ~0ull;
  put_mapping({.base = base,
               .bytes = bytes,
               .handle = external->handle,
               .kind = MappingKind::external,
               .context = context,
               .offset = into,
               .from = asked.offset - into,
               .readers = all,
               .writers = all});
  return give(out, base + into);
}
// Buffers that are still mapped keep the memory.
SIM_API CUresult cuDestroyExternalMemory(CUexternalMemory memory) {
  SIM_ENTER(cuDestroyExternalMemory);
  SIM_GET(External, external, resolve(memory, &external));
  const std::lock_guard guard(physical_lock());
  const std::uint64_t handle = external->handle;
  recycled<External>().give(external);
  --find_physical(handle)->references;
  drop_if_unused(handle);
  return CUDA_SUCCESS;
}

}  // namespace headgate::sim::driver
