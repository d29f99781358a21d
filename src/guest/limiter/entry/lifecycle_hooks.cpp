// Start of a membership (cuInit and nvmlInit), and creation and destruction of contexts.

#include <atomic>

#include "guest/bare/keep_errno.hpp"
#include "guest/bare/saturating.hpp"
#include "guest/limiter/compute/compute.hpp"
#include "guest/limiter/memory/card_free.hpp"
#include "guest/limiter/memory/charge.hpp"
#include "guest/limiter/memory/context_size.hpp"
#include "guest/limiter/memory/context_turn.hpp"
#include "guest/limiter/memory/residual.hpp"
#include "guest/limiter/memory/untold.hpp"
#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/session/before_init.hpp"
#include "guest/limiter/session/current.hpp"
#include "guest/limiter/session/gpu_pages.hpp"
#include "guest/limiter/session/green_contexts.hpp"
#include "guest/limiter/session/membership.hpp"
#include "guest/limiter/session/thread_percentage.hpp"

using namespace headgate::abi;
using namespace headgate::limiter;
namespace ledger = headgate::ledger;

namespace {

constexpr std::uint32_t kOutsideEvent = ledger::kMaxDevices;  // for may_say(), shared with refused allocations

// Call when a context now exists on this device: starts the meter and schedules a measurement of the context's memory.
CUresult after_creation(CUresult result, const CUcontext* context, CUdevice device) {
  current_changed();
  if (result != CUDA_SUCCESS) return result;
  const Place place = place_of(device);
  if (place.standing != Standing::held) return result;
  const headgate::bare::KeepErrno keep_errno;
  tell_thread_percentage(device, place.device_index);
  residual_is_due(place.device_index);
  compute_know_context(context != nullptr ? *context : nullptr, place.device_index);
  return result;
}

// Returns whether the driver has this GPU but the share does not. By cuda.h, CUDA_ERROR_INVALID_DEVICE means a GPU that
// is not there.
bool is_hidden_gpu(CUdevice device) {
  if (device < 0 || static_cast<std::uint32_t>(device) >= session.device_count) return false;
  if (may_say(kOutsideEvent + static_cast<std::uint32_t>(device) % ledger::kMaxDevices))
    log_line(LogLevel::error, "GPU %d is not in this process's share: no context is made there", device);
  return true;
}

// Charges a new context by the card's free memory. Other contexts show the size if there is no figure from before it,
// or if other shares may create contexts meanwhile.
std::int64_t guessed(const Place& place, const CardFree& free) {
  constexpr int kMostTrials = 3;
  const std::uint32_t index = place.device_index;
  std::int64_t more = free.is_known() ? guess_contexts(index, free.decrease()) : 0;
  if (free.is_known() && users_gpu_page(index) != nullptr) return more;
  for (int trials = 0; trials < kMostTrials && !context_size(index).is_measured; ++trials) {
    const ContextTrial trial = try_context(index, place.device);
    more += guess_contexts(index, trial.taken_bytes);
    more += guess_contexts(index, trial.returned_bytes);
  }
  return more;
}

// Charges a new context of which no size was measured before: measures it now, by NVML or else by the card's free
// memory. Returns whether the share has room for it; `found`: what a reading found of it, 0 if none came.
bool measured_and_fits(const Place& place, const CardFree& free, std::uint64_t residual_before, std::uint64_t& found) {
  const std::uint32_t index = place.device_index;
  const bool was_read = refresh_residual(index) && nvml_lists_us();
  if (!was_read) {
    const std::int64_t more = guessed(place, free);
    if (more > 0) residual_rises(index, static_cast<std::uint64_t>(more));
    else residual_falls(index, static_cast<std::uint64_t>(-more));
  }
  // A new guess changes the charges of other contexts too.
  const std::uint64_t grown = headgate::bare::saturating_sub(own_residual(index), residual_before);
  found = was_read ? grown : 0;
  if (growth_fits(index, grown)) return true;
  book_refusal(place, grown);
  return false;
}

bool primary_is_active(CUdevice device) {
  unsigned flags = 0;
  int active = 0;
  return forward(driver.cuDevicePrimaryCtxGetState, device, &flags, &active) == CUDA_SUCCESS && active != 0;
}

void release_primary(CUdevice device) {
  if (forward(driver.cuDevicePrimaryCtxRelease_v2, device) == CUDA_ERROR_NOT_FOUND)
    forward(driver.cuDevicePrimaryCtxRelease, device);
}

// Returns the primary context if it exists; only retaining it gives the handle.
CUcontext primary_of(CUdevice device) {
  if (!primary_is_active(device)) return nullptr;
  CUcontext context = nullptr;
  if (forward(driver.cuDevicePrimaryCtxRetain, &context, device) != CUDA_SUCCESS) return nullptr;
  release_primary(device);
  return context;
}

enum class Creation : std::uint32_t { plain, primary, none };  // none: the primary context exists already

Creation of_primary(CUdevice device) { return primary_is_active(device) ? Creation::none : Creation::primary; }

// Creates a context on a device of the share; other devices are refused. The call stores it in `made`; null: it is
// the primary one. undo() gives it up and returns whether it is gone: other threads may have the primary one too. Its
// size is known from the node's first context.
template <typename Create, typename Undo>
CUresult creating(CUdevice device, Creation what, CUcontext* made, Create create, Undo undo) {
  const Place place = place_of(device);
  if (place.standing == Standing::outside) {
    if (session.membership.load() == Membership::refused) return CUDA_ERROR_NOT_PERMITTED;
    if (is_hidden_gpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  }
  if (what == Creation::none || !is_limited(place)) return after_creation(create(), made, device);
  const headgate::bare::KeepErrno keep_errno;
  const std::uint32_t index = place.device_index;
  if (context_awaits_reading(index)) measure_residual_if_due(index);
  ContextSize size = context_size(index);
  const auto is_known = [&] { return (size = context_size(index)).is_measured; };
  ContextTurn turn;
  if (!size.is_measured) turn.wait(index, is_known);
  // Another thread may have created it meanwhile.
  if (what == Creation::primary && primary_is_active(device)) return after_creation(create(), made, device);
  if (size.is_measured) turn.leave();  // nothing to be learnt, and the share's room may be long in coming
  const CardFree free = size.is_measured ? CardFree() : CardFree(index);
  const std::uint64_t before = own_residual(index);
  const CUresult result =
      size.bytes != 0 ? taking(place, size.bytes, create, [] {}, [] { return kUntold; }) : noted(create());
  if (result != CUDA_SUCCESS) return after_creation(result, made, device);
  const CUcontext handle = made != nullptr ? *made : primary_of(device);
  if (!context_came(handle, index, size.bytes, what == Creation::primary))
    residual_falls(index, size.bytes);  // another thread was first
  std::uint64_t found = 0;
  if (size.is_measured || measured_and_fits(place, free, before, found)) return after_creation(result, made, device);
  const bool is_recorded = context_may_leave(handle);
  const bool is_gone = undo();
  current_changed();
  if (is_gone) {
    const std::uint64_t charged = is_recorded         ? context_left(handle)
                                  : handle != nullptr ? unrecorded_context_left(index)
                                                      : 0;
    // A reading may have found it without explaining it.
    if (found > charged) residual_rose(index, found - charged);
    residual_falls(index, found > charged ? found : charged);
  } else {
    context_stays(handle);
  }
  residual_is_due(index);
  return refusal();
}

std::atomic<bool> any_attached{false};

std::uint64_t owner(CUcontext context) { return reinterpret_cast<std::uintptr_t>(context); }

// Call before the driver may destroy a context. The meter's events are destroyed with it, so it gives them up first.
// Returns whether it is recorded.
bool context_may_go(CUcontext context) {
  compute_forget_context(context);
  context_memory_may_go(owner(context));
  untold_may_go(owner(context));
  return context_may_leave(context);
}

// The context's own memory goes with it, as it was charged. A measurement shows what else it held, at once if it was
// not charged.
void context_is_gone(CUcontext context, std::uint32_t device_index, bool is_recorded) {
  context_memory_gone(owner(context));
  untold_gone(owner(context));
  const std::uint64_t charged = is_recorded ? context_left(context) : unrecorded_context_left(device_index);
  if (device_index == kNoDevice) return;
  residual_falls(device_index, charged);
  if (charged == 0) residual_is_due(device_index);
  residual_moved(device_index);
}

// Cached current contexts are invalid before and after.
template <typename Destroy>
CUresult going(Destroy destroy) {
  contexts_changed();
  const CUresult result = destroy();
  contexts_changed();
  return result;
}

std::uint32_t index_of(CUcontext context) {
  CUdevice device = 0;
  if (!device_of(context, device)) return kNoDevice;
  const Place place = place_of(device);
  return place.standing == Standing::held ? place.device_index : kNoDevice;
}

// A null context does not mean the current one in the calls below, so nothing of ours is destroyed with it.
template <typename Destroy>
CUresult destroyed(CUcontext context, Destroy destroy) {
  if (!seated() || context == nullptr) return going(destroy);
  const std::uint32_t device_index = index_of(context);
  const bool is_recorded = context_may_go(context);
  const InFlightBytes in_flight(kAnyDevice);
  const CUresult result = going(destroy);
  if (result == CUDA_SUCCESS) context_is_gone(context, device_index, is_recorded);
  else context_stays(context);
  return result;
}

// A reset destroys it; a release only if it was the last, which shows afterwards.
template <typename Destroy>
CUresult primary_destroyed(CUdevice device, bool surely, Destroy destroy) {
  const CUcontext context = seated() ? primary_of(device) : nullptr;
  if (context == nullptr) return going(destroy);
  if (surely) forget_green_of(context, compute_forget_context);
  const bool is_recorded = context_may_go(context);
  const InFlightBytes in_flight(kAnyDevice);
  const CUresult result = going(destroy);
  const Place place = place_of(device);
  if (result == CUDA_SUCCESS && (surely || !primary_is_active(device)))
    context_is_gone(context, place.standing == Standing::held ? place.device_index : kNoDevice, is_recorded);
  else context_stays(context);
  return result;
}

}  // namespace

HEADGATE_HOOK CUresult cuCtxFromGreenCtx(CUcontext* pContext, CUgreenCtx hCtx) {
  const CUresult result = forward(driver.cuCtxFromGreenCtx, pContext, hCtx);
  CUdevice device = 0;
  if (result == CUDA_SUCCESS && seated() && root_of(*pContext) == *pContext && device_of(*pContext, device))
    know_green(*pContext, primary_of(device));
  return result;
}

// Its streams' brackets and events go with it, and so does the primary context if this was its last user.
HEADGATE_HOOK CUresult cuGreenCtxDestroy(CUgreenCtx hCtx) {
  const auto destroy = [=] { return forward(driver.cuGreenCtxDestroy, hCtx); };
  CUcontext handle = nullptr;
  CUdevice device = 0;
  if (!seated() || hCtx == nullptr || forward(driver.cuCtxFromGreenCtx, &handle, hCtx) != CUDA_SUCCESS ||
      !device_of(handle, device))
    return going(destroy);
  compute_forget_context(handle);
  forget_green(handle);
  return primary_destroyed(device, false, destroy);
}

HEADGATE_HOOK CUresult cuInit(unsigned Flags) {
  number_visible_devices();
  note_thread_percentage();
  await_mps_daemon();
  const CUresult result = forward(driver.cuInit, Flags);
  return result == CUDA_SUCCESS ? open_session() : result;
}

namespace {

template <typename Create>
CUresult created(CUdevice device, CUcontext* made, Create create) {
  return creating(device, Creation::plain, made, create,
                  [=] { return forward(driver.cuCtxDestroy_v2, *made) == CUDA_SUCCESS; });
}

}  // namespace

HEADGATE_HOOK CUresult cuCtxCreate(CUcontext* pctx, unsigned flags, CUdevice dev) {
  return created(dev, pctx, [=] { return forward(driver.cuCtxCreate, pctx, flags, dev); });
}

HEADGATE_HOOK CUresult cuCtxCreate_v2(CUcontext* pctx, unsigned flags, CUdevice dev) {
  return created(dev, pctx, [=] { return forward(driver.cuCtxCreate_v2, pctx, flags, dev); });
}

HEADGATE_HOOK CUresult cuCtxCreate_v3(CUcontext* pctx, CUexecAffinityParam* paramsArray, int numParams, unsigned flags,
                                      CUdevice dev) {
  return created(dev, pctx, [=] { return forward(driver.cuCtxCreate_v3, pctx, paramsArray, numParams, flags, dev); });
}

HEADGATE_HOOK CUresult cuCtxCreate_v4(CUcontext* pctx, CUctxCreateParams* ctxCreateParams, unsigned flags,
                                      CUdevice dev) {
  return created(dev, pctx, [=] { return forward(driver.cuCtxCreate_v4, pctx, ctxCreateParams, flags, dev); });
}

HEADGATE_HOOK CUresult cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
  const auto create = [=] { return forward(driver.cuDevicePrimaryCtxRetain, pctx, dev); };
  return creating(dev, of_primary(dev), pctx, create, [=] {
    release_primary(dev);
    return !primary_is_active(dev);
  });
}

// Creates the primary context if it does not exist.
HEADGATE_HOOK CUresult cuGreenCtxCreate(CUgreenCtx* phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned flags) {
  const auto create = [=] { return forward(driver.cuGreenCtxCreate, phCtx, desc, dev, flags); };
  return creating(dev, of_primary(dev), nullptr, create, [=] {
    forward(driver.cuGreenCtxDestroy, *phCtx);
    return !primary_is_active(dev);
  });
}

HEADGATE_HOOK CUresult cuCtxDestroy(CUcontext ctx) {
  return destroyed(ctx, [=] { return forward(driver.cuCtxDestroy, ctx); });
}

HEADGATE_HOOK CUresult cuCtxDestroy_v2(CUcontext ctx) {
  return destroyed(ctx, [=] { return forward(driver.cuCtxDestroy_v2, ctx); });
}

// An attached context has another user.
HEADGATE_HOOK CUresult cuCtxAttach(CUcontext* pctx, unsigned flags) {
  const CUresult result = forward(driver.cuCtxAttach, pctx, flags);
  if (result == CUDA_SUCCESS) any_attached.store(true);
  return result;
}

// Destroys the context if it has no other user. That is not visible if one was ever attached: then the ledger keeps the
// bytes, too much rather than too little.
HEADGATE_HOOK CUresult cuCtxDetach(CUcontext ctx) {
  const auto detach = [=] { return forward(driver.cuCtxDetach, ctx); };
  if (!any_attached.load()) return destroyed(ctx, detach);
  if (seated()) {
    compute_forget_context(ctx);
    if (context_may_leave(ctx)) context_left(ctx);
  }
  return going(detach);
}

HEADGATE_HOOK CUresult cuDevicePrimaryCtxRelease(CUdevice dev) {
  return primary_destroyed(dev, false, [=] { return forward(driver.cuDevicePrimaryCtxRelease, dev); });
}

HEADGATE_HOOK CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
  return primary_destroyed(dev, false, [=] { return forward(driver.cuDevicePrimaryCtxRelease_v2, dev); });
}

HEADGATE_HOOK CUresult cuDevicePrimaryCtxReset(CUdevice dev) {
  return primary_destroyed(dev, true, [=] { return forward(driver.cuDevicePrimaryCtxReset, dev); });
}

HEADGATE_HOOK CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev) {
  return primary_destroyed(dev, true, [=] { return forward(driver.cuDevicePrimaryCtxReset_v2, dev); });
}

namespace {

// nvmlInit counts its callers, so an init that we refuse is undone.
nvmlReturn_t after_nvml_init(nvmlReturn_t result) {
  if (result != NVML_SUCCESS) return result;
  const nvmlReturn_t answer = open_session_for_views();
  if (answer != NVML_SUCCESS) forward(nvml.nvmlShutdown);
  return answer;
}

}  // namespace

HEADGATE_HOOK nvmlReturn_t nvmlInit() { return after_nvml_init(forward(nvml.nvmlInit)); }
HEADGATE_HOOK nvmlReturn_t nvmlInit_v2() { return after_nvml_init(forward(nvml.nvmlInit_v2)); }
HEADGATE_HOOK nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
  return after_nvml_init(forward(nvml.nvmlInitWithFlags, flags));
}
