// Compares resource_abi.hpp with the real cuda.h. Built only where one is installed; no code.
#include <cuda.h>

#include "sim/driver/context/resource_abi.hpp"

#if CUDA_VERSION >= 12040
namespace sim = headgate::sim::driver;
static_assert(sizeof(CUdevResource) == sizeof(sim::DevResource));
static_assert(offsetof(CUdevResource, sm) == offsetof(sim::DevResource, sm));
static_assert(offsetof(CUdevSmResource, smCoscheduledAlignment) == 8);
static_assert(CU_DEV_RESOURCE_TYPE_SM == static_cast<int>(sim::kResourceSm));
static_assert(CU_GREEN_CTX_DEFAULT_STREAM == sim::kGreenDefaultStream);
static_assert(CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE == sim::kSplitMaxCluster);
#endif
