// Contexts: creation and destruction, the stack of each thread, primary contexts.
#include <algorithm>
#include <functional>

#include "sim/driver/context/context_growth.hpp"
#include "sim/driver/context/green_context.hpp"
#include "sim/driver/graph/capture.hpp"
#include "sim/driver/library.hpp"
#include "sim/driver/memory/array.hpp"
#include "sim/driver/memory/memory.hpp"
#include "sim/driver/module/module.hpp"
#include "sim/driver/stream/payload.hpp"
#include "sim/kernel_faults.hpp"

namespace headgate::sim::driver {

namespace {

thread_local std::vector<Context*> stack;

// NVML's compute modes: 2 admits no process, 3 one process at a time. cuda.h, CUDA_ERROR_DEVICE_UNAVAILABLE, names
// both. In mode 3 all clients of an MPS server count as one process, the server.
bool admitted(const State& state, std::uint32_t device, std::uint32_t process) {
  const std::uint32_t mode = state.nvml[device].compute_mode;
  if (mode != 3) return mode != 2;
  return std::ranges::none_of(state.contexts, [&](const sim::Context& one) {
    const bool both_clients = one.mps_sms != 0 && state.processes[process].mps_percent != 0;
    return one.used && one.device == device && one.process != process && !both_clients;
  });
}

CUresult make_in_node(Context* context) {
  Node& node = *library().node;
  Node::Advanced locked(node);
  if (!admitted(locked->state(), context->node_device, node.process())) return CUDA_ERROR_DEVICE_UNAVAILABLE;
  const std::uint32_t a = locked->next_account_slot(node.process(), context->node_device);
  const std::uint32_t s = locked->next_stream_slot();
  if (a == kNone || s == kNone || !node.back_account(a) || !node.back_stream(s)) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::uint32_t account = locked->account(node.process(), context->node_device);
  const std::uint64_t bytes = library().profile().context_bytes;
  if (account == kNone || !locked->reserve_context_bytes(account, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  context->index = locked->create_context(node.process(), context->node_device);
  if (context->index == kNone) {
    locked->release_context_bytes(account, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  context->account = account;
  context->legacy->index = locked->legacy_stream(context->index);
  return CUDA_SUCCESS;
}

CUcontext handle(Context* context) { return reinterpret_cast<CUcontext>(context); }

CUresult create(CUcontext* out, unsigned flags, CUdevice device) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(library().contexts_lock);
  SIM_GET(Context, context, make_context(device, flags, false, &context));
  stack.push_back(context);
  return give(out, handle(context));
}

CUresult destroy(CUcontext ctx) {
  const std::lock_guard guard(library().contexts_lock);
  Context* context = object<Context>(ctx);
  if (!context || context->primary || context->green) return CUDA_ERROR_INVALID_CONTEXT;
  if (!stack.empty() && stack.back() == context) stack.pop_back();
  end_context(context);
  return CUDA_SUCCESS;
}

CUresult push(CUcontext ctx) {
  SIM_GET(Context, context, resolve(ctx, &context));
  stack.push_back(context);
  return CUDA_SUCCESS;
}

CUresult pop(CUcontext* out) {
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (out) *out = handle(stack.back());
  stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult release(CUdevice device) {
  if (!known_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard guard(library().contexts_lock);
  return release_primary(device);
}

CUresult reset(CUdevice device) {
  Library& lib = library();
  if (!known_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard guard(lib.contexts_lock);
  if (!lib.primary[device]) return CUDA_SUCCESS;
  end_context(lib.primary[device]);
  lib.primary[device] = nullptr;
  lib.primary_uses[device] = 0;
  return CUDA_SUCCESS;
}

template <typename Value, typename Read>
CUresult tell(Value* out, CUcontext handle, Read read) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Context, context, context_or_current(handle, &context));
  return give(out, std::invoke(read, *context));
}

CUresult synchronise(CUcontext handle) {
  SIM_GET(Context, context, context_or_current(handle, &context));
  count(counters(context).synchronisations);
  SIM_TRY(context_allowed(context));
  return wait_context(context);
}

CUresult set_flags(CUdevice device, unsigned flags) {
  if (!known_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (flags > 0xff) return CUDA_ERROR_INVALID_VALUE;
  library().primary_flags[device] = flags;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult make_context(int device, unsigned flags, bool primary, Context** out) {
  Library& lib = library();
  if (device < 0 || static_cast<std::size_t>(device) >= lib.visible.size()) return CUDA_ERROR_INVALID_DEVICE;
  if (lib.node->is_removed() || device_lost(lib.visible[device])) return CUDA_ERROR_DEVICE_UNAVAILABLE;
  SIM_TRY(lib.ended_by[static_cast<std::size_t>(device)]);
  Context* context = recycled<Context>().take();
  Stream* legacy = recycled<Stream>().take();
  context->device = device;
  context->node_device = lib.visible[device];
  context->flags = flags;
  context->primary = primary;
  context->root = context;
  context->green = nullptr;
  context->id = lib.next_id.fetch_add(1);
  context->order = 0;
  begin_growth(context);
  context->legacy = legacy;
  CUresult made = make_in_node(context);
  if (made != CUDA_SUCCESS) {
    lib.node->reap();  // dead processes may still hold the memory or the device
    made = make_in_node(context);
  }
  if (made != CUDA_SUCCESS) {
    recycled<Stream>().give(legacy);
    recycled<Context>().give(context);
    return made;
  }
  legacy->context = context;
  legacy->kind = StreamKind::legacy;
  legacy->flags = 0;
  legacy->priority = 0;
  legacy->id = lib.next_id.fetch_add(1);
  legacy->capturing.store(false, std::memory_order_relaxed);
  context->streams = {legacy};
  legacy->publish();
  context->publish();
  lib.contexts.push_back(context);
  return give(out, context);
}

// The caller holds contexts_lock.
void end_context(Context* context) {
  Library& lib = library();
  forget_green(context);
  forget_captures(context);
  wait_context(context);
  context->retire();
  std::erase(lib.contexts, context);
  forget_modules(context);
  forget_graphs(context);
  forget_events(context);
  forget_arrays(context);
  forget_textures(context);
  free_memory_of(context);
  forget_peers(context);
  for (Stream* stream : context->streams) recycled<Stream>().give(stream);
  context->streams.clear();
  const std::uint64_t grown_bytes = end_growth(context);
  {
    Node::Advanced locked(*lib.node);
    const std::uint32_t error = locked->state().contexts[context->index].error;
    if (ends_process(error)) lib.ended_by[static_cast<std::size_t>(context->device)] = static_cast<CUresult>(error);
    locked->destroy_context(context->index);
    locked->release_context_bytes(context->account, lib.profile().context_bytes + grown_bytes);
  }
  recycled<Context>().give(context);
}

CUresult health(const Context* context) {
  const State& state = library().state();
  if (library().node->is_removed() || device_lost(context->node_device)) return CUDA_ERROR_DEVICE_UNAVAILABLE;
  auto& error = const_cast<std::uint32_t&>(state.contexts[context->index].error);
  return static_cast<CUresult>(std::atomic_ref(error).load(std::memory_order_relaxed));
}

void fail_context(Context* context, CUresult error) {
  Node::Advanced(*library().node)->fail_context(context->index, error);
}

CUresult act_on_fault(const char* name) {
  const auto answer = static_cast<CUresult>(fault(name));
  if (answer == CUDA_SUCCESS || !faults_detail::ends_context) return answer;
  if (!stack.empty() && object<Context>(stack.back())) fail_context(stack.back()->root, answer);
  return answer;
}

CUresult context_of(CUcontext handle, Context** out) {
  SIM_GET(Context, context, resolve(handle, &context));
  SIM_TRY(health(context->root));
  return give(out, context->root);
}

GreenContext* current_green() {
  if (stack.empty() || !stack.back()) return nullptr;
  return stack.back()->valid() ? stack.back()->green : nullptr;
}

CUresult current_context(Context** out) {
  if (stack.empty() || !stack.back()) return CUDA_ERROR_INVALID_CONTEXT;
  Context* context = stack.back();
  if (!context->valid()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  SIM_TRY(health(context->root));
  return give(out, context->root);
}

CUresult retain_primary(int device, Context** out) {
  Library& lib = library();
  if (!lib.primary[device]) SIM_TRY(make_context(device, lib.primary_flags[device], true, &lib.primary[device]));
  ++lib.primary_uses[device];
  return give(out, lib.primary[device]);
}

CUresult release_primary(int device) {
  Library& lib = library();
  if (!lib.primary[device] || lib.primary_uses[device] == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--lib.primary_uses[device] > 0) return CUDA_SUCCESS;
  end_context(lib.primary[device]);
  lib.primary[device] = nullptr;
  return CUDA_SUCCESS;
}

SIM_CALL(cuCtxCreate, (CUcontext * out, unsigned flags, CUdevice device), create(out, flags, device))
SIM_CALL(cuCtxCreate_v2, (CUcontext * out, unsigned flags, CUdevice device), create(out, flags, device))
SIM_CALL(cuCtxCreate_v3, (CUcontext * out, CUexecAffinityParam* affinity, int count, unsigned flags, CUdevice device),
         affinity || count ? CUDA_ERROR_NOT_SUPPORTED : create(out, flags, device))
SIM_CALL(cuCtxCreate_v4, (CUcontext * out, CUctxCreateParams* parameters, unsigned flags, CUdevice device),
         parameters ? CUDA_ERROR_NOT_SUPPORTED : create(out, flags, device))
SIM_CALL(cuCtxDestroy, (CUcontext ctx), destroy(ctx))
SIM_CALL(cuCtxDestroy_v2, (CUcontext ctx), destroy(ctx))
SIM_CALL(cuCtxDetach, (CUcontext ctx), destroy(ctx))
SIM_CALL(cuCtxPushCurrent, (CUcontext ctx), push(ctx))
SIM_CALL(cuCtxPushCurrent_v2, (CUcontext ctx), push(ctx))
SIM_CALL(cuCtxPopCurrent, (CUcontext * out), pop(out))
SIM_CALL(cuCtxPopCurrent_v2, (CUcontext * out), pop(out))
SIM_API CUresult cuCtxSetCurrent(CUcontext ctx) {
  SIM_ENTER(cuCtxSetCurrent);
  if (!ctx) {
    if (!stack.empty()) stack.pop_back();
    return CUDA_SUCCESS;
  }
  SIM_GET(Context, context, resolve(ctx, &context));
  if (stack.empty()) stack.push_back(context);
  else stack.back() = context;
  return CUDA_SUCCESS;
}
SIM_API CUresult cuCtxGetCurrent(CUcontext* out) {
  SIM_ENTER(cuCtxGetCurrent, out);
  return give(out, stack.empty() ? nullptr : handle(stack.back()));
}
SIM_CALL(cuCtxGetDevice, (CUdevice * device), tell(device, nullptr, &Context::device))
SIM_CALL(cuCtxGetDevice_v2, (CUdevice * device, CUcontext ctx), tell(device, ctx, &Context::device))
SIM_CALL(cuCtxGetFlags, (unsigned* flags), tell(flags, nullptr, &Context::flags))
SIM_CALL(cuCtxGetId, (CUcontext ctx, unsigned long long* id), tell(id, ctx, &Context::id))
SIM_CALL(cuCtxGetApiVersion, (CUcontext ctx, unsigned* version),
         tell(version, ctx, [](const Context&) { return 3020u; }))
SIM_API CUresult cuCtxGetLimit(std::size_t* value, CUlimit limit) {
  SIM_ENTER(cuCtxGetLimit, value);
  SIM_GET(Context, context, current_context(&context));
  if (limit >= 8) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  return give(value, context->limits[limit]);
}
SIM_API CUresult cuCtxSetLimit(CUlimit limit, std::size_t value) {
  SIM_ENTER(cuCtxSetLimit);
  SIM_GET(Context, context, current_context(&context));
  if (limit >= 8) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  return set_limit(context, limit, value);
}
SIM_API CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  SIM_ENTER(cuCtxGetStreamPriorityRange);
  SIM_GET(Context, context, current_context(&context));
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return CUDA_SUCCESS;
}
SIM_CALL(cuCtxGetCacheConfig, (CUfunc_cache * config), tell(config, nullptr, &Context::cache_config))
SIM_API CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  SIM_ENTER(cuCtxSetCacheConfig);
  SIM_GET(Context, context, current_context(&context));
  context->cache_config = static_cast<int>(config);
  return CUDA_SUCCESS;
}
SIM_CALL(cuCtxSynchronize, (), synchronise(nullptr))
SIM_CALL(cuCtxSynchronize_v2, (CUcontext ctx), synchronise(ctx))

SIM_API CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  SIM_ENTER(cuDevicePrimaryCtxRetain);
  Library& lib = library();
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!known_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard guard(lib.contexts_lock);
  SIM_GET(Context, primary, retain_primary(device, &primary));
  return give(out, handle(primary));
}
SIM_CALL(cuDevicePrimaryCtxRelease, (CUdevice device), release(device))
SIM_CALL(cuDevicePrimaryCtxRelease_v2, (CUdevice device), release(device))
SIM_CALL(cuDevicePrimaryCtxReset, (CUdevice device), reset(device))
SIM_CALL(cuDevicePrimaryCtxReset_v2, (CUdevice device), reset(device))
SIM_CALL(cuDevicePrimaryCtxSetFlags, (CUdevice device, unsigned flags), set_flags(device, flags))
SIM_CALL(cuDevicePrimaryCtxSetFlags_v2, (CUdevice device, unsigned flags), set_flags(device, flags))
SIM_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  SIM_ENTER(cuDevicePrimaryCtxGetState, flags, active);
  if (!known_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard guard(library().contexts_lock);
  *flags = library().primary_flags[device];
  return give(active, library().primary[device] != nullptr);
}

}  // namespace headgate::sim::driver
