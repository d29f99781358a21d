#include "sim/driver/memory/memory.hpp"

#include <algorithm>
#include <map>

#include "sim/driver/memory/copy.hpp"

namespace headgate::sim::driver {
namespace {

// A GPU's page of managed memory. Advice for a part of a block applies to the whole block.
constexpr std::uint64_t kBlockBytes = 2 << 20;

// cuda.h: CUmemLocationType, and the device numbers that range attributes return.
constexpr unsigned kNowhere = 0, kOnDevice = 1, kOnHost = 2, kOnNumaNode = 3, kOnOwnNumaNode = 4;
constexpr int kCpu = -1, kInvalidDevice = -2;
constexpr unsigned kCpuBit = 1u << 31;

struct Place {
  unsigned type = kNowhere;
  int id = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

struct Block {
  std::uint32_t account = kNone;  // on the GPU that holds it; kNone: in host memory, or not populated
  Place preferred, prefetched;
  unsigned accessed_by = 0;  // one bit for each device ordinal, and kCpuBit
  bool read_mostly = false;
};

struct Managed {
  Allocation allocation;
  std::vector<Block> blocks;
};

struct ManagedMemory {
  std::mutex lock;
  std::map<std::uint64_t, Managed> list;  // by base
  std::atomic<std::size_t> count{0};
};
ManagedMemory& managed_memory() { return forever<ManagedMemory>(); }

std::uint64_t bytes_of(const Managed& managed, std::size_t block) {
  return std::min(kBlockBytes, managed.allocation.bytes - block * kBlockBytes);
}

void leave_gpu(Managed& managed, std::size_t block) {
  std::uint32_t& account = managed.blocks[block].account;
  if (account == kNone) return;
  Node::Locked(*library().node)->release(account, bytes_of(managed, block));
  account = kNone;
}

// Moves the block to a visible device if it has room.
void go_to_gpu(Managed& managed, std::size_t block, int device) {
  const std::uint32_t node_device = library().visible[device];
  std::uint32_t& now = managed.blocks[block].account;
  if (now != kNone && library().state().accounts[now].device == node_device) return;
  leave_gpu(managed, block);
  Node::Locked locked(*library().node);
  const std::uint32_t account = locked->account(library().node->process(), node_device);
  if (account != kNone && locked->reserve(account, bytes_of(managed, block))) now = account;
}

struct Range {
  std::size_t first = 0, end = 0;  // blocks
};
Range blocks_of(const Managed& managed, std::uint64_t at, std::uint64_t bytes) {
  const std::uint64_t offset = at - managed.allocation.base;
  return {offset / kBlockBytes, (offset + bytes - 1) / kBlockBytes + 1};
}

// The caller holds the lock.
Managed* find(std::uint64_t at, std::uint64_t bytes) {
  auto it = managed_memory().list.upper_bound(at);
  if (it == managed_memory().list.begin()) return nullptr;
  Managed& managed = (--it)->second;
  const std::uint64_t offset = at - managed.allocation.base;
  const bool inside = offset < managed.allocation.bytes && bytes <= managed.allocation.bytes - offset;
  return inside ? &managed : nullptr;
}

// Calls `act` for each block of a range. INVALID_VALUE unless all of the range is managed memory.
template <typename Act>
CUresult with_range(CUdeviceptr at, std::size_t bytes, Act act) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(managed_memory().lock);
  Managed* managed = find(at, bytes);
  if (!managed) return CUDA_ERROR_INVALID_VALUE;
  const Range range = blocks_of(*managed, at, bytes);
  for (std::size_t block = range.first; block < range.end; ++block) act(*managed, block);
  return CUDA_SUCCESS;
}

CUresult check_place(const Place& place) {
  if (place.type == kOnHost || place.type == kOnOwnNumaNode) return CUDA_SUCCESS;
  if (place.type == kOnNumaNode) return place.id == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
  if (place.type != kOnDevice) return CUDA_ERROR_INVALID_VALUE;
  const bool known = place.id >= 0 && static_cast<std::size_t>(place.id) < library().visible.size();
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

// Converts the location of the older calls: a device, or -1 for the CPU.
Place place_of(CUdevice device) { return device == kCpu ? Place{kOnHost, 0} : Place{kOnDevice, device}; }

CUresult prefetch(CUdeviceptr at, std::size_t bytes, Place to, CUstream handle, bool per_thread) {
  SIM_GET(Stream, stream, stream_of(handle, per_thread, &stream));
  SIM_TRY(check_place(to));
  SIM_TRY(with_range(at, bytes, [](Managed&, std::size_t) {}));
  const CommandKind kind = to.type == kOnDevice ? CommandKind::copy_to_device : CommandKind::copy_to_host;
  return enqueue_copy(stream, kind, bytes, false, [=] {
    (void)with_range(at, bytes, [&](Managed& managed, std::size_t block) {
      managed.blocks[block].prefetched = to;
      if (to.type == kOnDevice) go_to_gpu(managed, block, to.id);
      else leave_gpu(managed, block);
    });
  });
}

// cuda.h: CUmem_advise.
void advise(Managed& managed, std::size_t index, unsigned advice, const Place& place) {
  Block& block = managed.blocks[index];
  const unsigned bit = place.type == kOnDevice ? 1u << place.id : kCpuBit;
  switch (advice) {
    case 1: block.read_mostly = true; break;
    case 2: block.read_mostly = false; break;
    case 3:
      block.preferred = place;
      if (place.type != kOnDevice) leave_gpu(managed, index);
      break;
    case 4: block.preferred = {}; break;
    case 5: block.accessed_by |= bit; break;
    default: block.accessed_by &= ~bit; break;
  }
}

CUresult take_advice(CUdeviceptr at, std::size_t bytes, unsigned advice, Place place) {
  if (advice < 1 || advice > 6) return CUDA_ERROR_INVALID_VALUE;
  // cuda.h: other advice ignores the location.
  if (advice == 3 || advice >= 5) SIM_TRY(check_place(place));
  else place = {};
  return with_range(at, bytes, [&](Managed& managed, std::size_t block) { advise(managed, block, advice, place); });
}

int as_device(const Place& place) {
  return place.type == kNowhere ? kInvalidDevice : place.type == kOnDevice ? place.id : kCpu;
}

// cuda.h: CUmem_range_attribute. If blocks differ in a location, returns the value of a block without one.
CUresult range_attribute(int* data, std::size_t data_bytes, unsigned which, CUdeviceptr at, std::size_t bytes) {
  if (!data || data_bytes == 0 || data_bytes % sizeof(int) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (which < 1 || which > 8 || (which != 3 && data_bytes != sizeof(int))) return CUDA_ERROR_INVALID_VALUE;
  bool first = true, alike_preferred = true, alike_prefetched = true, read_mostly = true;
  unsigned accessed_by = ~0u;
  Place preferred, prefetched;
  SIM_TRY(with_range(at, bytes, [&](const Managed& managed, std::size_t index) {
    const Block& block = managed.blocks[index];
    alike_preferred &= first || block.preferred == preferred;
    alike_prefetched &= first || block.prefetched == prefetched;
    preferred = block.preferred;
    prefetched = block.prefetched;
    read_mostly &= block.read_mostly;
    accessed_by &= block.accessed_by;
    first = false;
  }));
  if (!alike_preferred) preferred = {};
  if (!alike_prefetched) prefetched = {};
  switch (which) {
    case 1: *data = read_mostly; break;
    case 2: *data = as_device(preferred); break;
    case 3: {
      std::vector<int> devices;
      if (accessed_by & kCpuBit) devices.push_back(kCpu);
      for (int d = 0; d < static_cast<int>(library().visible.size()); ++d)
        if (accessed_by & 1u << d) devices.push_back(d);
      for (std::size_t i = 0; i < data_bytes / sizeof(int); ++i)
        data[i] = i < devices.size() ? devices[i] : kInvalidDevice;
      break;
    }
    case 4: *data = as_device(prefetched); break;
    case 5: *data = static_cast<int>(preferred.type); break;
    case 6: *data = preferred.id; break;
    case 7: *data = static_cast<int>(prefetched.type); break;
    default: *data = prefetched.id; break;
  }
  return CUDA_SUCCESS;
}

void touch(Managed& managed, std::size_t block) {
  const Place& preferred = managed.blocks[block].preferred;
  if (managed.blocks[block].account != kNone || (preferred.type != kNowhere && preferred.type != kOnDevice)) return;
  go_to_gpu(managed, block, preferred.type == kOnDevice ? preferred.id : managed.allocation.context->device);
}

}  // namespace

void managed_made(const Allocation& allocation) {
  const std::lock_guard guard(managed_memory().lock);
  managed_memory().list[allocation.base] = {allocation,
                                            std::vector<Block>((allocation.bytes + kBlockBytes - 1) / kBlockBytes)};
  managed_memory().count.store(managed_memory().list.size(), std::memory_order_release);
}

void managed_gone(std::uint64_t base) {
  const std::lock_guard guard(managed_memory().lock);
  const auto it = managed_memory().list.find(base);
  if (it == managed_memory().list.end()) return;
  for (std::size_t block = 0; block < it->second.blocks.size(); ++block) leave_gpu(it->second, block);
  managed_memory().list.erase(it);
  managed_memory().count.store(managed_memory().list.size(), std::memory_order_release);
}

void touch_managed(std::uint64_t base, std::uint64_t at, std::uint64_t bytes) {
  const std::lock_guard guard(managed_memory().lock);
  const auto it = managed_memory().list.find(base);
  if (it == managed_memory().list.end() || bytes == 0) return;
  const Range range = blocks_of(it->second, at, bytes);
  for (std::size_t block = range.first; block < range.end; ++block) touch(it->second, block);
}

void touch_all_managed(const Context* context) {
  if (managed_memory().count.load(std::memory_order_acquire) == 0) return;
  const std::lock_guard guard(managed_memory().lock);
  for (auto& [base, managed] : managed_memory().list) {
    // CU_MEM_ATTACH_HOST (2): kernels do not access it.
    if (managed.allocation.context != context || managed.allocation.flags == 2) continue;
    for (std::size_t block = 0; block < managed.blocks.size(); ++block) touch(managed, block);
  }
}

SIM_CALL_PTSZ(cuMemPrefetchAsync, (CUdeviceptr at, std::size_t bytes, CUdevice to, CUstream stream),
              prefetch(at, bytes, place_of(to), stream, per_thread))
SIM_CALL_PTSZ(cuMemPrefetchAsync_v2,
              (CUdeviceptr at, std::size_t bytes, CUmemLocation to, unsigned flags, CUstream stream),
              flags != 0 ? CUDA_ERROR_INVALID_VALUE : prefetch(at, bytes, {to.type, to.id}, stream, per_thread))

SIM_CALL(cuMemAdvise, (CUdeviceptr at, std::size_t bytes, CUmem_advise advice, CUdevice device),
         take_advice(at, bytes, advice, place_of(device)))
SIM_CALL(cuMemAdvise_v2, (CUdeviceptr at, std::size_t bytes, CUmem_advise advice, CUmemLocation location),
         take_advice(at, bytes, advice, {location.type, location.id}))
SIM_CALL(cuMemRangeGetAttribute,
         (void* data, std::size_t data_bytes, unsigned which, CUdeviceptr at, std::size_t bytes),
         range_attribute(static_cast<int*>(data), data_bytes, which, at, bytes))
SIM_API CUresult cuMemRangeGetAttributes(void** data, std::size_t* data_bytes, unsigned* which, std::size_t count_in,
                                         CUdeviceptr at, std::size_t bytes) {
  SIM_ENTER(cuMemRangeGetAttributes);
  if (!data || !data_bytes || !which || count_in == 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count_in; ++i)
    SIM_TRY(range_attribute(static_cast<int*>(data[i]), data_bytes[i], which[i], at, bytes));
  return CUDA_SUCCESS;
}

}  // namespace headgate::sim::driver
