#include "sim/driver/context/context_growth.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace headgate::sim::driver {
namespace {

enum : unsigned { kStack = 0, kPrintf = 1, kHeap = 2 };  // cuda.h: CUlimit

struct Growth {
  std::mutex lock;
};
std::mutex& growth_lock() { return forever<Growth>().lock; }

CUresult take(Context* context, std::uint64_t bytes) {
  const auto reserve = [&] { return Node::Locked(*library().node)->reserve_context_bytes(context->account, bytes); };
  if (bytes == 0 || reserve()) return CUDA_SUCCESS;
  library().node->reap();
  return reserve() ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void shrink(Context* context, std::uint64_t bytes) {
  if (bytes != 0) Node::Locked(*library().node)->release_context_bytes(context->account, bytes);
}

std::uint64_t beyond(std::uint64_t value, std::uint64_t usual) { return value > usual ? value - usual : 0; }

// Local memory is reserved for every thread that the card can hold at once.
std::uint64_t grown(const Context& context, std::uint64_t local_bytes) {
  const Profile& profile = library().profile();
  const std::uint64_t threads = std::uint64_t{profile.sm_count} * profile.max_threads_per_sm;
  return beyond(local_bytes, kDefaultLimits[kStack]) * threads +
         beyond(context.limits[kPrintf], kDefaultLimits[kPrintf]) + beyond(context.limits[kHeap], profile.heap_bytes);
}

// The caller holds the lock. Grows the context to its limits and `local_bytes` of local memory.
CUresult resize(Context* context, std::uint64_t local_bytes) {
  const std::uint64_t wanted = grown(*context, local_bytes);
  if (wanted > context->grown_bytes) SIM_TRY(take(context, wanted - context->grown_bytes));
  else shrink(context, context->grown_bytes - wanted);
  context->grown_bytes = wanted;
  context->local_bytes = local_bytes;
  return CUDA_SUCCESS;
}

CUresult load_locked(Function* function) {
  if (function->loaded.load(std::memory_order_relaxed)) return CUDA_SUCCESS;
  Context* context = function->module->context;
  const std::uint64_t bytes = function->entry->behaviour.code_bytes;
  SIM_TRY(take(context, bytes));
  context->code_bytes += bytes;
  function->loaded.store(true, std::memory_order_release);
  return CUDA_SUCCESS;
}

}  // namespace

bool loads_eagerly() {
  static const bool eager = [] {
    const char* said = std::getenv("CUDA_MODULE_LOADING");
    return said != nullptr && std::string_view(said) == "EAGER";
  }();
  return eager;
}

CUresult make_ready(Function* function) {
  Context* context = function->module->context;
  const std::uint64_t local_bytes = function->entry->local_bytes;
  if (function->loaded.load(std::memory_order_acquire) && local_bytes <= kDefaultLimits[kStack]) return CUDA_SUCCESS;
  const std::lock_guard guard(growth_lock());
  SIM_TRY(load_locked(function));
  return local_bytes > context->local_bytes ? resize(context, local_bytes) : CUDA_SUCCESS;
}

CUresult load_code(Function* function) {
  const std::lock_guard guard(growth_lock());
  return load_locked(function);
}

void unload_code(Function* function) {
  const std::lock_guard guard(growth_lock());
  if (!function->loaded.exchange(false)) return;
  Context* context = function->module->context;
  const std::uint64_t bytes = function->entry->behaviour.code_bytes;
  context->code_bytes -= bytes;
  shrink(context, bytes);
}

CUresult set_limit(Context* context, unsigned limit, std::uint64_t value) {
  const std::lock_guard guard(growth_lock());
  const std::uint64_t before = context->limits[limit];
  context->limits[limit] = value;
  const std::uint64_t local_bytes = limit == kStack ? std::max(context->local_bytes, value) : context->local_bytes;
  const CUresult resized = resize(context, local_bytes);
  if (resized != CUDA_SUCCESS) context->limits[limit] = before;
  return resized;
}

void begin_growth(Context* context) {
  std::ranges::copy(kDefaultLimits, context->limits);
  context->limits[kHeap] = library().profile().heap_bytes;
  context->local_bytes = kDefaultLimits[kStack];
  context->grown_bytes = context->code_bytes = 0;
}

std::uint64_t end_growth(Context* context) {
  const std::lock_guard guard(growth_lock());
  const std::uint64_t all = context->grown_bytes + context->code_bytes;
  context->grown_bytes = context->code_bytes = 0;
  return all;
}

}  // namespace headgate::sim::driver
