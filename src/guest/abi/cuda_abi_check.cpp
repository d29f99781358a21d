// Compares our declarations of the driver API with the real cuda.h, at compile time. Built only if cuda.h is installed.
// Without this macro cuda.h maps functions to their newest variants and hides the older ones.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "guest/abi/abi_check.hpp"
#include "guest/abi/cuda.hpp"

namespace {

#define CU_FN(name, kind, since, parameters, arguments) \
  static_assert(Compare<decltype(::name), ours::name##_t>::value, #name " differs from cuda.h");
#include "guest/abi/cuda_table.def"

#define CU_RESULT(value, name) SAME_VALUE(name);
#define CU_ATTRIBUTE(value, name) SAME_VALUE(CU_DEVICE_ATTRIBUTE_##name);
#define CU_VALUE(type, value, name) SAME_VALUE(name);
#include "guest/abi/cuda_values.def"

SAME_SIZE(CUuuid);
SAME_SIZE(CUipcMemHandle);
SAME_SIZE(CUipcEventHandle);
SAME_SIZE(CUmemAccessDesc);
SAME_PLACE(CUmemAccessDesc, flags);
SAME_SIZE(CUmemLocation);
SAME_PLACE(CUmemLocation, type);
SAME_PLACE(CUmemLocation, id);
SAME_SIZE(CUmemPoolProps);
SAME_PLACE(CUmemPoolProps, handleTypes);
SAME_PLACE(CUmemPoolProps, location);
SAME_PLACE(CUmemPoolProps, maxSize);
SAME_PLACE(CUmemPoolProps, usage);
SAME_SIZE(CUdevprop);
SAME_PLACE(CUdevprop, SIMDWidth);
SAME_PLACE(CUdevprop, textureAlign);
SAME_SIZE(CUlaunchAttribute);
SAME_PLACE(CUlaunchAttribute, value);
SAME_PLACE(CUlaunchAttribute, value.programmaticEvent.triggerAtBlockStart);
SAME_SIZE(CUlaunchConfig);
SAME_PLACE(CUlaunchConfig, sharedMemBytes);
SAME_PLACE(CUlaunchConfig, hStream);
SAME_PLACE(CUlaunchConfig, attrs);
SAME_PLACE(CUlaunchConfig, numAttrs);
SAME_SIZE(CUDA_KERNEL_NODE_PARAMS);
SAME_PLACE(CUDA_KERNEL_NODE_PARAMS, kern);
SAME_SIZE(CUDA_MEM_ALLOC_NODE_PARAMS);
SAME_PLACE(CUDA_MEM_ALLOC_NODE_PARAMS, poolProps);
SAME_PLACE(CUDA_MEM_ALLOC_NODE_PARAMS, bytesize);
SAME_PLACE(CUDA_MEM_ALLOC_NODE_PARAMS, dptr);
SAME_SIZE(CUDA_GRAPH_INSTANTIATE_PARAMS);
SAME_PLACE(CUDA_GRAPH_INSTANTIATE_PARAMS, hUploadStream);
SAME_SIZE(CUDA_LAUNCH_PARAMS);
SAME_PLACE(CUDA_LAUNCH_PARAMS, sharedMemBytes);
SAME_PLACE(CUDA_LAUNCH_PARAMS, hStream);
SAME_PLACE(CUDA_LAUNCH_PARAMS, kernelParams);

}  // namespace
