// cuMemGetInfo and cuDeviceTotalMem show the share instead of the card. The driver is called first with the caller's
// arguments, so that its errors and its handling of null pointers stay.
#include <cerrno>

#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/session/membership.hpp"
#include "guest/limiter/view/share_view.hpp"

using namespace headgate::abi;
using namespace headgate::limiter;

namespace {

unsigned in_32_bits(std::uint64_t bytes) { return bytes > ~0u ? ~0u : static_cast<unsigned>(bytes); }

// free, total: the card's, or null if the program asked for only one of them.
bool current_view(MemoryView& view, const std::size_t* free, const std::size_t* total) {
  const Place place = current_place();
  if (place.standing != Standing::held) return false;
  std::size_t card_free = 0, card_total = 0;
  if (free != nullptr && total != nullptr) card_free = *free, card_total = *total;
  else if (forward(driver.cuMemGetInfo_v2, &card_free, &card_total) != CUDA_SUCCESS) return false;
  const int saved = errno;
  view = share_memory(place.device_index, card_total, card_free);
  errno = saved;
  return true;
}

}  // namespace

HEADGATE_HOOK CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  const CUresult result = forward(driver.cuMemGetInfo_v2, free, total);
  MemoryView view;
  if (result != CUDA_SUCCESS || !current_view(view, free, total)) return result;
  if (free != nullptr) *free = view.free_bytes;
  if (total != nullptr) *total = view.total_bytes;
  return result;
}

HEADGATE_HOOK CUresult cuMemGetInfo(unsigned* free, unsigned* total) {
  const CUresult result = forward(driver.cuMemGetInfo, free, total);
  MemoryView view;
  if (result != CUDA_SUCCESS || !current_view(view, nullptr, nullptr)) return result;
  if (free != nullptr) *free = in_32_bits(view.free_bytes);
  if (total != nullptr) *total = in_32_bits(view.total_bytes);
  return result;
}

HEADGATE_HOOK CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice dev) {
  const CUresult result = forward(driver.cuDeviceTotalMem_v2, bytes, dev);
  if (result != CUDA_SUCCESS || bytes == nullptr) return result;
  const Place place = place_of(dev);
  if (place.standing == Standing::held) *bytes = share_total(place.device_index, *bytes);
  return result;
}

HEADGATE_HOOK CUresult cuDeviceTotalMem(unsigned* bytes, CUdevice dev) {
  const CUresult result = forward(driver.cuDeviceTotalMem, bytes, dev);
  if (result != CUDA_SUCCESS || bytes == nullptr) return result;
  const Place place = place_of(dev);
  if (place.standing == Standing::held) *bytes = in_32_bits(share_total(place.device_index, *bytes));
  return result;
}
