// Structures of green contexts, as cuda.h lays them out (CUDA 12.4 and newer, RESOURCE_ABI_VERSION 1).
#pragma once

#include <cstddef>
#include <cstdint>

namespace headgate::sim::driver {

enum ResourceType : std::uint32_t { kResourceInvalid = 0, kResourceSm = 1 };  // CUdevResourceType

// The bytes that cuda.h leaves to the driver. They say which SMs these are.
struct SmSet {
  std::uint32_t mark;    // kSmSetMark: made by this driver
  std::uint32_t device;  // the node's number
  std::uint32_t first, count;
  std::uint64_t split;  // id of the call that split it; 0: a whole device or green context, which may be split
};
inline constexpr std::uint32_t kSmSetMark = 0x68677368;

struct DevResource {  // CUdevResource
  ResourceType type;
  std::uint32_t padding;
  SmSet set;
  std::byte driver[92 - 4 - sizeof(SmSet)];
  struct {
    std::uint32_t count, least, alignment;
  } sm;  // CUdevSmResource
  std::byte oversize[48 - 12];
};
static_assert(offsetof(DevResource, sm) == 96 && sizeof(DevResource) == 144);

// cuda.h: CU_DEV_SM_RESOURCE_SPLIT_*, CU_GREEN_CTX_DEFAULT_STREAM.
inline constexpr unsigned kSplitIgnoreCoscheduling = 1, kSplitMaxCluster = 2, kGreenDefaultStream = 1;

}  // namespace headgate::sim::driver
