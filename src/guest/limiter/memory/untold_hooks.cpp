// Modules and the limits of a context: their memory is charged to the share before the call returns.
#include <algorithm>
#include <atomic>
#include <iterator>

#include "guest/bare/saturating.hpp"
#include "guest/limiter/memory/image_growth.hpp"
#include "guest/limiter/memory/residual.hpp"
#include "guest/limiter/memory/untold.hpp"
#include "guest/limiter/route/forward.hpp"

using namespace headgate::abi;
using namespace headgate::limiter;

namespace {

std::uint64_t key_of(CUmodule module) { return reinterpret_cast<std::uintptr_t>(module); }

template <typename Load>
CUresult loading(const CUmodule* module, const ImageNeeds& needs, const Place& place, Load load) {
  std::uint64_t took = 0;
  const auto unload = [=] { forward(driver.cuModuleUnload, *module); };
  const CUresult result = with_image(needs, place, load, unload, took);
  if (result == CUDA_SUCCESS && took != 0) untold.put(key_of(*module), {took, place.device_index, owner_here()});
  return result;
}

template <typename Load>
CUresult loading_image(const CUmodule* module, const void* image, Load load) {
  const Place place = current_place();
  return is_limited(place) ? loading(module, needs_of_image(image, architecture_of(place.device)), place, load)
                           : load();
}

// Parts that never shrink while their context exists, or only by the same call.
enum class Part : std::uint64_t { stack = 1, printf = 2, heap = 3 };

// Adds `more` bytes to what a part of the current context takes.
void add(Part part, const Place& place, std::uint64_t more) {
  const std::uint64_t context = owner_here();
  Allocation known{0, place.device_index, context};
  untold.take(context + static_cast<std::uint64_t>(part), known);
  known.bytes += more;
  untold.put(context + static_cast<std::uint64_t>(part), known);
}
std::uint64_t taken_by(Part part) {
  Allocation known;
  untold.look(owner_here() + static_cast<std::uint64_t>(part), known);
  return known.bytes;
}

// What a new context has and its size includes, by part. cuda.h gives no figure of the stack's bytes per thread; the
// others are of the CUDA C++ Programming Guide.
constexpr std::uint64_t kDefaults[] = {0, 1024, 1 << 20, 8 << 20};

// The driver's own figures, where larger: all contexts of a device begin with the same. Learnt before the process first
// changes one; 0: not yet. Never for the stack, which the driver raises by itself for kernels that need more.
std::atomic<std::uint64_t> learnt[headgate::ledger::kMaxDevices][std::size(kDefaults)];

std::uint64_t usual(Part part, std::uint32_t device) {
  const auto which = static_cast<std::size_t>(part);
  return std::max(kDefaults[which], learnt[device][which].load());
}
void learn_usual(Part part, std::uint32_t device, std::uint64_t value) {
  const auto which = static_cast<std::size_t>(part);
  std::uint64_t none = 0;
  learnt[device][which].compare_exchange_strong(none, std::max(kDefaults[which], value));
}

// The maximum per multiprocessor up to compute capability 12 (CUDA C++ Programming Guide, compute capabilities).
constexpr std::uint64_t kMostThreads = 2048;

// Returns 0 if the driver does not say.
std::uint64_t attribute_of(CUdevice device, CUdevice_attribute which) {
  int value = 0;
  const bool told = forward(driver.cuDeviceGetAttribute, &value, which, device) == CUDA_SUCCESS && value > 0;
  return told ? static_cast<std::uint64_t>(value) : 0;
}

// The stack limit applies to every thread that the card can hold at once. Returns an upper bound; 0 if the driver does
// not tell the number of multiprocessors.
std::uint64_t most_threads_of(CUdevice device) {
  const std::uint64_t each = attribute_of(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  return attribute_of(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) * (each != 0 ? each : kMostThreads);
}

// The driver does not report the number of multiprocessors: the stacks' size can be measured only after they are taken,
// and not undone. With fail policy closed the share refuses that.
bool may_take_unknown(const Place& place, std::uint64_t bytes_a_thread) {
  residual_is_due(place.device_index);
  if (session.policy->fail_policy != headgate::ledger::FailPolicy::closed) return true;
  book_refusal(place, bytes_a_thread);
  return false;
}

std::uint64_t beyond(std::uint64_t value, std::uint64_t before, std::uint64_t each) {
  const std::uint64_t bytes = headgate::bare::saturating_mul(headgate::bare::saturating_sub(value, before), each);
  return bytes == kUntold ? bytes - 1 : bytes;
}

}  // namespace

namespace headgate::limiter {

bool has_room_for_local(const Place& place, int bytes_a_thread) {
  if (bytes_a_thread <= 0) return true;
  const std::uint64_t threads = most_threads_of(place.device), local = static_cast<std::uint64_t>(bytes_a_thread);
  const std::uint64_t stack = usual(Part::stack, place.device_index);
  if (threads == 0 && local > stack) return may_take_unknown(place, local);
  const std::uint64_t bytes = beyond(local, stack, threads);
  const std::uint64_t more = beyond(bytes, taken_by(Part::stack), 1);
  if (more == 0) return true;
  InFlightBytes in_flight;
  if (try_reserve_at(place, more, in_flight) != Verdict::reserved) return book_refusal(place, more), false;
  add(Part::stack, place, more);
  becomes_residual(place.device_index, more);
  return true;
}

}  // namespace headgate::limiter

HEADGATE_HOOK CUresult cuModuleLoad(CUmodule* module, const char* fname) {
  const auto load = [=] { return forward(driver.cuModuleLoad, module, fname); };
  const Place place = current_place();
  return is_limited(place) ? loading(module, needs_of_file(fname, architecture_of(place.device)), place, load) : load();
}

HEADGATE_HOOK CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return loading_image(module, image, [=] { return forward(driver.cuModuleLoadData, module, image); });
}

HEADGATE_HOOK CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned numOptions,
                                          CUjit_option* options, void** optionValues) {
  return loading_image(module, image, [=] {
    return forward(driver.cuModuleLoadDataEx, module, image, numOptions, options, optionValues);
  });
}

HEADGATE_HOOK CUresult cuModuleLoadFatBinary(CUmodule* module, const void* fatCubin) {
  return loading_image(module, fatCubin, [=] { return forward(driver.cuModuleLoadFatBinary, module, fatCubin); });
}

// Local memory grows at the first launch of a kernel that needs more than the stack limit. A launch makes no check, so
// a kernel without room is refused here.
HEADGATE_HOOK CUresult cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) {
  const CUresult result = noted(forward(driver.cuModuleGetFunction, hfunc, hmod, name));
  if (result != CUDA_SUCCESS) return result;
  const Place place = current_place();
  int local = 0;
  if (!is_limited(place) || forward(driver.cuFuncGetAttribute, &local, kLocalBytes, *hfunc) != CUDA_SUCCESS ||
      has_room_for_local(place, local))
    return result;
  *hfunc = nullptr;
  return refusal();
}

HEADGATE_HOOK CUresult cuModuleUnload(CUmodule hmod) {
  Allocation module;
  const bool known = seated() && untold.take(key_of(hmod), module);
  const CUresult result = noted(forward(driver.cuModuleUnload, hmod));
  if (!known) return result;
  if (result == CUDA_SUCCESS) residual_falls(module.device_index, module.bytes);
  else untold.put(key_of(hmod), module);
  return result;
}

HEADGATE_HOOK CUresult cuCtxSetLimit(CUlimit limit, std::size_t value) {
  const auto set = [=] { return forward(driver.cuCtxSetLimit, limit, value); };
  const Place place = current_place();
  const bool stack = limit == CU_LIMIT_STACK_SIZE, heap = limit == CU_LIMIT_MALLOC_HEAP_SIZE;
  const bool sized = stack || heap || limit == CU_LIMIT_PRINTF_FIFO_SIZE;
  const Part part = stack ? Part::stack : heap ? Part::heap : Part::printf;
  const bool held = place.standing == Standing::held && place.device_index < headgate::ledger::kMaxDevices;
  std::size_t before = 0;
  const bool known = sized && held && forward(driver.cuCtxGetLimit, &before, limit) == CUDA_SUCCESS;
  if (known && !stack) learn_usual(part, place.device_index, before);
  if (!known || !is_limited(place)) {
    const CUresult result = set();
    if (result == CUDA_SUCCESS && held && seated()) residual_is_due(place.device_index);
    return result;
  }
  const std::uint64_t each = stack ? most_threads_of(place.device) : 1;
  if (each == 0 && value > before && !may_take_unknown(place, value)) return refusal();
  const std::uint64_t wanted = beyond(value, usual(part, place.device_index), each), taken = taken_by(part);
  const std::uint64_t more = beyond(wanted, taken, 1);
  // Local memory never shrinks, and may already exceed the limit.
  const std::uint64_t less = stack ? 0 : beyond(taken, wanted, 1);
  const auto undo = [=] { forward(driver.cuCtxSetLimit, limit, before); };
  const CUresult result = taking(place, more, set, undo, [] { return kUntold; });
  if (result != CUDA_SUCCESS) return result;
  if (more != 0) add(part, place, more);
  if (less != 0) {
    add(part, place, 0 - less);
    residual_falls(place.device_index, less);
  }
  residual_is_due(place.device_index);
  return result;
}
