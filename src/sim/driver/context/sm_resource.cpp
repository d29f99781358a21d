// A device's SMs as a resource: query, split into groups, describe for a green context.
#include <algorithm>
#include <deque>

#include "sim/driver/context/green_context.hpp"

namespace headgate::sim::driver {
namespace {

// cuda.h, "Green Contexts": sizes depend on the architecture. If coscheduling is ignored, SMs still come in pairs.
struct Granule {
  std::uint32_t least, alignment;
};
Granule granule(unsigned flags = 0) {
  const std::uint32_t major = library().profile().capability_major;
  if ((flags & kSplitIgnoreCoscheduling) != 0 || major < 8) return {2, 2};
  return major >= 9 ? Granule{8, 8} : Granule{4, 2};
}

DevResource resource(const SmSet& set) {
  DevResource made{};
  made.type = kResourceSm;
  made.set = set;
  made.sm = {set.count, granule().least, granule().alignment};
  return made;
}

CUresult tell_sms(DevResource* out, std::uint32_t type, const SmSet& set) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (type != kResourceSm) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  return give(out, resource(set));
}

SmSet whole(std::uint32_t node_device) { return {kSmSetMark, node_device, 0, library().profile().sm_count, 0}; }

// Never freed: cuda.h has no call that destroys a descriptor.
const SmSet* keep(const SmSet& set) {
  static std::mutex lock;
  static auto& forever = *new std::deque<SmSet>;
  const std::lock_guard guard(lock);
  return &forever.emplace_back(set);
}

}  // namespace

SIM_API CUresult cuDeviceGetDevResource(CUdevice device, DevResource* out, std::uint32_t type) {
  SIM_ENTER(cuDeviceGetDevResource);
  if (device < 0 || static_cast<std::size_t>(device) >= library().visible.size()) return CUDA_ERROR_INVALID_DEVICE;
  return tell_sms(out, type, whole(library().visible[static_cast<std::size_t>(device)]));
}
SIM_API CUresult cuCtxGetDevResource(CUcontext handle, DevResource* out, std::uint32_t type) {
  SIM_ENTER(cuCtxGetDevResource);
  SIM_GET(Context, context, context_or_current(handle, &context));
  const GreenContext* green = handle ? object<Context>(handle)->green : current_green();
  return tell_sms(out, type, green ? green->set : whole(context->node_device));
}
SIM_API CUresult cuGreenCtxGetDevResource(CUgreenCtx handle, DevResource* out, std::uint32_t type) {
  SIM_ENTER(cuGreenCtxGetDevResource);
  const GreenContext* green = object<GreenContext>(handle);
  return green ? tell_sms(out, type, green->set) : CUDA_ERROR_INVALID_CONTEXT;
}
SIM_API CUresult cuDevSmResourceSplitByCount(DevResource* result, unsigned* groups, const DevResource* input,
                                             DevResource* remaining, unsigned flags, unsigned least) {
  SIM_ENTER(cuDevSmResourceSplitByCount);
  if (!groups || !input || flags > (kSplitIgnoreCoscheduling | kSplitMaxCluster)) return CUDA_ERROR_INVALID_VALUE;
  if (input->type != kResourceSm) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  const SmSet& set = input->set;
  if (set.mark != kSmSetMark || set.split != 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  if (least > set.count) return CUDA_ERROR_INVALID_VALUE;
  const Granule step = granule(flags);
  const unsigned size = std::max(step.least, (least + step.alignment - 1) / step.alignment * step.alignment);
  if (size > set.count) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  const unsigned most = set.count / size;
  if (!result) {
    return give(groups, most);
  }
  *groups = std::min(*groups, most);
  const std::uint64_t call = library().next_id.fetch_add(1);
  for (unsigned i = 0; i < *groups; ++i)
    result[i] = resource({kSmSetMark, set.device, set.first + i * size, size, call});
  if (!remaining) return CUDA_SUCCESS;
  const SmSet rest{kSmSetMark, set.device, set.first + *groups * size, set.count - *groups * size, call};
  return give(remaining, rest.count != 0 ? resource(rest) : DevResource{});
}
SIM_API CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* out, const DevResource* resources, unsigned count) {
  SIM_ENTER(cuDevResourceGenerateDesc);
  if (!out || !resources || count == 0) return CUDA_ERROR_INVALID_VALUE;
  SmSet all = resources[0].set;
  all.count = 0;
  for (unsigned i = 0; i < count; ++i) {
    const DevResource& one = resources[i];
    if (one.type != kResourceSm) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    if (one.set.mark != kSmSetMark || one.set.device != all.device) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    if (count > 1 && (one.set.split == 0 || one.set.split != all.split))
      return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    all.count += one.set.count;
  }
  if (all.count > library().profile().sm_count)
    return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;  // a resource was named twice
  return give(out, const_cast<SmSet*>(keep(all)));
}

}  // namespace headgate::sim::driver
