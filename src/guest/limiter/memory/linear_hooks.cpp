// Linear device memory: cuMemAlloc, Pitch, Managed, and their frees. For pools see pool_hooks.cpp.
#include "guest/bare/saturating.hpp"
#include "guest/limiter/memory/charge.hpp"
#include "guest/limiter/memory/host_memory.hpp"
#include "guest/limiter/memory/pool.hpp"
#include "guest/limiter/memory/rounding.hpp"
#include "guest/limiter/memory/slabs.hpp"
#include "guest/limiter/route/forward.hpp"

using namespace headgate::abi;
using namespace headgate::limiter;

namespace {

// Requests that the driver itself rejects, with its own error code.
bool is_drivers_error(const void* out, std::uint64_t bytes) { return out == nullptr || bytes == 0; }

// cuda.h: element sizes of pitched allocations, and attachments of managed memory.
bool is_element_size(unsigned bytes) { return bytes == 4 || bytes == 8 || bytes == 16; }
bool is_attachment(unsigned flags) { return flags == 1 || flags == 2; }

// All known GPUs pad rows to a multiple of 512 bytes or less.
constexpr std::uint64_t kWidestPadding = 512;

// Saturates: a product above 64 bits fits no limit and no driver.
std::uint64_t padded(std::uint64_t width, std::uint64_t height) {
  return headgate::bare::saturating_mul(rounded_up(width, kWidestPadding), height);
}

// The first API's pointers have 32 bits, which managed memory does not fit.
template <typename Pointer>
constexpr Fallback fallback_of() {
  return sizeof(Pointer) == sizeof(CUdeviceptr) ? Fallback::host : Fallback::none;
}

// Call after reserve_at() or reserve_on_host() found room on the host.
template <typename Pointer>
CUresult on_host(Pointer* pointer, std::uint64_t bytes, const Place& place) {
  if constexpr (fallback_of<Pointer>() == Fallback::host) return allocate_on_host(pointer, bytes, place);
  else return CUDA_ERROR_OUT_OF_MEMORY;
}

template <typename Pointer>
bool take_host_memory(Pointer* pointer, std::uint64_t bytes, const Place& place, CUresult& result) {
  if (fallback_of<Pointer>() != Fallback::host || !reserve_on_host(place.device_index, bytes)) return false;
  result = on_host(pointer, bytes, place);
  return true;
}

// Charges a small request of at most `bound` bytes; size() tells the actual size. If the share has no room for a new
// slab, still tries: a piece may fit an existing slab. A new slab is then given back.
template <typename Pointer, typename Allocate, typename Undo, typename Size>
[[gnu::noinline]] CUresult charged_piece(std::uint64_t bound, Pointer* pointer, Allocate allocate, Undo undo,
                                         Size size) {
  OomWait wait;
  for (;;) {
    const Place place = current_place();
    std::uint64_t reserved = bytes_for_piece(place.device_index, bound);
    Verdict verdict = reserved > bound ? try_reserve_at(place, reserved, wait.in_flight) : Verdict::refused;
    if (verdict != Verdict::reserved) verdict = reserve_at(place, reserved = bound, wait, fallback_of<Pointer>());
    switch (verdict) {
      case Verdict::forward: return allocate();
      case Verdict::refused: return refusal();
      case Verdict::on_host: return on_host(pointer, bound, place);
      case Verdict::reserved: break;
    }
    const PieceProbe probe(place.device_index);
    CUresult result = noted(allocate());
    if (result != CUDA_SUCCESS) {
      hand_back_unused(place.device_index, reserved);
      if (result == CUDA_ERROR_OUT_OF_MEMORY && is_oversubscribed(place) &&
          take_host_memory(pointer, bound, place, result))
        return result;
      if (!try_again(result, place, reserved, wait)) return result;
      continue;
    }
    const std::uint64_t bytes = size(), owner = owner_here();
    const std::uint64_t taken = probe.taken(*pointer, bytes, owner);
    if (taken <= reserved || grow_reservation(place.device_index, taken - reserved)) {
      if (taken < reserved) hand_back_unused(place.device_index, reserved - taken);
      keep(pointers, *pointer, {bytes, place.device_index, owner});
      return result;
    }
    undo(*pointer);
    piece_gone(*pointer, bytes, false);
    hand_back_unused(place.device_index, reserved);
    if (take_host_memory(pointer, bound, place, result)) return result;
    if (wait.again(place, taken, Lack::share)) continue;
    book_refusal(place, taken);
    return refusal();
  }
}

// Charges a request of at most `bound` bytes; size() tells the actual size. Memory past the limit may be on the host.
// of_card: the call takes card memory at once, not page by page.
template <typename Pointer, typename Allocate, typename Undo, typename Size>
CUresult charged_linear(std::uint64_t bound, bool of_card, Pointer* pointer, Allocate allocate, Undo undo, Size size) {
  OomWait wait;
  for (;;) {
    const Place place = current_place();
    if (of_card && may_be_piece(place, bound)) return charged_piece(bound, pointer, allocate, undo, size);
    std::uint64_t taken = of_card ? with_rounding(place.device_index, bound) : bound;
    const Verdict verdict =
        place.standing == Standing::free ? Verdict::forward : reserve_at(place, taken, wait, fallback_of<Pointer>());
    switch (verdict) {
      case Verdict::forward: return allocate();
      case Verdict::refused: return refusal();
      case Verdict::on_host: return on_host(pointer, taken, place);
      case Verdict::reserved: break;
    }
    CUresult result =
        of_card ? allocated(place, bound, taken, allocate, [=] { undo(*pointer); }, size) : noted(allocate());
    if (result == CUDA_SUCCESS) keep(pointers, *pointer, {taken, place.device_index, owner_here()});
    else hand_back_unused(place.device_index, taken);
    // A share that was promised more than the card has may find the card full before its own part is used.
    if (result == CUDA_ERROR_OUT_OF_MEMORY && is_oversubscribed(place) &&
        take_host_memory(pointer, taken, place, result))
      return result;
    if (!try_again(result, place, taken, wait)) return result;
  }
}

CUresult linear(CUdeviceptr* pointer, std::uint64_t bytes, bool of_card, auto allocate) {
  if (is_drivers_error(pointer, bytes)) return allocate();
  const auto undo = [](CUdeviceptr made) { forward(driver.cuMemFree_v2, made); };
  return charged_linear(bytes, of_card, pointer, allocate, undo, [=] { return bytes; });
}

// The pitch is known only after the call.
template <typename Allocate, typename Pointer, typename Pitch>
CUresult pitched(Pointer* pointer, Pitch* pitch, std::uint64_t width, std::uint64_t height, unsigned element,
                 Allocate allocate, CUresult (*undo)(Pointer)) {
  if (is_drivers_error(pointer, width) || pitch == nullptr || height == 0 || !is_element_size(element))
    return allocate();
  const CUresult result = charged_linear(padded(width, height), true, pointer, allocate, undo,
                                         [=] { return std::uint64_t{*pitch} * height; });
  Allocation made;
  if (result == CUDA_SUCCESS && pointers.look(*pointer, made) && made.device_index >= headgate::ledger::kMaxDevices)
    *pitch = static_cast<Pitch>(padded(width, 1));  // on the host
  return result;
}

}  // namespace

HEADGATE_HOOK CUresult cuMemAlloc(CUdeviceptr_v1* dptr, unsigned bytesize) {
  const auto allocate = [=] { return forward(driver.cuMemAlloc, dptr, bytesize); };
  if (is_drivers_error(dptr, bytesize)) return allocate();
  return charged(
      bytesize, pointers, allocate, [=] { return std::uint64_t{*dptr}; }, [=] { forward(driver.cuMemFree, *dptr); });
}

HEADGATE_HOOK CUresult cuMemAlloc_v2(CUdeviceptr* dptr, size_t bytesize) {
  return linear(dptr, bytesize, true, [=] { return forward(driver.cuMemAlloc_v2, dptr, bytesize); });
}

HEADGATE_HOOK CUresult cuMemAllocManaged(CUdeviceptr* dptr, size_t bytesize, unsigned flags) {
  const auto allocate = [=] { return forward(driver.cuMemAllocManaged, dptr, bytesize, flags); };
  return is_attachment(flags) ? linear(dptr, bytesize, false, allocate) : allocate();
}

HEADGATE_HOOK CUresult cuMemAllocPitch(CUdeviceptr_v1* dptr, unsigned* pPitch, unsigned WidthInBytes, unsigned Height,
                                       unsigned ElementSizeBytes) {
  const auto allocate = [=] {
    return forward(driver.cuMemAllocPitch, dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
  };
  return pitched(
      dptr, pPitch, WidthInBytes, Height, ElementSizeBytes, allocate,
      +[](CUdeviceptr_v1 made) { return forward(driver.cuMemFree, made); });
}

HEADGATE_HOOK CUresult cuMemAllocPitch_v2(CUdeviceptr* dptr, size_t* pPitch, size_t WidthInBytes, size_t Height,
                                          unsigned ElementSizeBytes) {
  const auto allocate = [=] {
    return forward(driver.cuMemAllocPitch_v2, dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
  };
  return pitched(
      dptr, pPitch, WidthInBytes, Height, ElementSizeBytes, allocate,
      +[](CUdeviceptr made) { return forward(driver.cuMemFree_v2, made); });
}

HEADGATE_HOOK CUresult cuMemFree(CUdeviceptr_v1 dptr) {
  return released(pointers, dptr, [=] { return forward(driver.cuMemFree, dptr); });
}

HEADGATE_HOOK CUresult cuMemFree_v2(CUdeviceptr dptr) {
  PoolFree from_pool(dptr);
  return from_pool.settle(released(pointers, dptr, [=] { return forward(driver.cuMemFree_v2, dptr); }), true);
}
