#include "guest/limiter/memory/host_memory.hpp"

#include "guest/ledger/account.hpp"
#include "guest/limiter/memory/charge.hpp"
#include "guest/limiter/route/forward.hpp"

namespace headgate::limiter {
namespace {

using namespace abi;

// cuda.h: CU_MEM_ATTACH_GLOBAL, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_MEM_ADVISE_SET_ACCESSED_BY, CU_DEVICE_CPU,
// CU_MEM_LOCATION_TYPE_HOST and _DEVICE.
constexpr unsigned kAttachGlobal = 1, kHostLocation = 2, kDeviceLocation = 1;
constexpr auto kPreferredLocation = static_cast<CUmem_advise>(3), kAccessedBy = static_cast<CUmem_advise>(5);
constexpr CUdevice kCpu = -1;

CUresult advise(CUdeviceptr pointer, std::uint64_t bytes, CUmem_advise advice, CUdevice device) {
  if (real(driver.cuMemAdvise) != nullptr) return forward(driver.cuMemAdvise, pointer, bytes, advice, device);
  const CUmemLocation location{device == kCpu ? kHostLocation : kDeviceLocation, device == kCpu ? 0 : device};
  return forward(driver.cuMemAdvise_v2, pointer, bytes, advice, location);
}

}  // namespace

bool is_oversubscribed(const Place& place) {
  return place.standing == Standing::held && seated() &&
         session.policy->devices[place.device_index].oversubscribed.load(std::memory_order_relaxed) != 0;
}

bool reserve_on_host(std::uint32_t device, std::uint64_t bytes) {
  const std::uint64_t budget = session.policy->devices[device].host_limit_bytes.load(std::memory_order_relaxed);
  if (budget == 0) return false;
  return ledger::reserve(*session.usage, ledger::host_account(device), own_slot(), bytes, budget).ok;
}

// Without a preferred location, the memory would move to the GPU, past the limit.
CUresult allocate_on_host(CUdeviceptr* pointer, std::uint64_t bytes, const Place& place) {
  const std::uint32_t account = ledger::host_account(place.device_index);
  CUresult made = forward(driver.cuMemAllocManaged, pointer, bytes, kAttachGlobal);
  if (made == CUDA_SUCCESS && advise(*pointer, bytes, kPreferredLocation, kCpu) != CUDA_SUCCESS) {
    forward(driver.cuMemFree_v2, *pointer);
    made = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (made != CUDA_SUCCESS) {
    hand_back_unused(account, bytes);
    return is_final(made) ? made : CUDA_ERROR_OUT_OF_MEMORY;
  }
  advise(*pointer, bytes, kAccessedBy, place.device);  // avoids page faults; if it fails, they happen
  keep(pointers, *pointer, {bytes, account, owner_here()});
  return CUDA_SUCCESS;
}

}  // namespace headgate::limiter
