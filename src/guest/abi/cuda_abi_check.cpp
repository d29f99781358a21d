// Compares our declarations of the driver API with the real cuda.h. Built only where one is installed; it has no code.
// Without this macro cuda.h maps functions to their newest variants and hides the older ones.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <cstddef>
#include <type_traits>

#include "guest/abi/cuda.hpp"

namespace ours = headgate::abi;

namespace {

// Parameters are compatible if they are passed alike: same size, both pointers or neither, both floating or neither.
template <typename Real, typename Ours>
constexpr bool alike() {
  if constexpr (std::is_pointer_v<Real> || std::is_pointer_v<Ours>) {
    if constexpr (!(std::is_pointer_v<Real> && std::is_pointer_v<Ours>)) return false;
    else {
      using A = std::remove_pointer_t<Real>;
      using B = std::remove_pointer_t<Ours>;
      if constexpr (std::is_pointer_v<A> || std::is_pointer_v<B>) return std::is_pointer_v<A> && std::is_pointer_v<B>;
      else return true;
    }
  } else {
    return sizeof(Real) == sizeof(Ours) && std::is_floating_point_v<Real> == std::is_floating_point_v<Ours> &&
           std::is_class_v<Real> == std::is_class_v<Ours>;
  }
}

template <typename Real, typename Ours>
struct Compare : std::false_type {};
template <typename R, typename... A, typename S, typename... B>
  requires(sizeof...(A) == sizeof...(B))
struct Compare<R(A...), S(B...)> : std::bool_constant<alike<R, S>() && (alike<A, B>() && ...)> {};

#define CU_FN(name, kind, since, parameters, arguments) \
  static_assert(Compare<decltype(::name), ours::name##_t>::value, #name " differs from cuda.h");
#include "guest/abi/cuda_table.def"

#define SAME_VALUE(name) static_assert(static_cast<long long>(::name) == static_cast<long long>(ours::name))
#define CU_RESULT(value, name) SAME_VALUE(name);
#define CU_ATTRIBUTE(value, name) SAME_VALUE(CU_DEVICE_ATTRIBUTE_##name);
#include "guest/abi/cuda_values.def"
SAME_VALUE(CU_LIMIT_STACK_SIZE);
SAME_VALUE(CU_LIMIT_PRINTF_FIFO_SIZE);
SAME_VALUE(CU_LIMIT_MALLOC_HEAP_SIZE);
SAME_VALUE(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME_VALUE(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME_VALUE(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
SAME_VALUE(CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME_VALUE(CU_FUNC_ATTRIBUTE_PTX_VERSION);
SAME_VALUE(CU_FUNC_ATTRIBUTE_BINARY_VERSION);
SAME_VALUE(CU_POINTER_ATTRIBUTE_CONTEXT);
SAME_VALUE(CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME_VALUE(CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
SAME_VALUE(CU_POINTER_ATTRIBUTE_HOST_POINTER);
SAME_VALUE(CU_POINTER_ATTRIBUTE_IS_MANAGED);
SAME_VALUE(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME_VALUE(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
SAME_VALUE(CU_MEM_ALLOCATION_TYPE_PINNED);
SAME_VALUE(CU_MEM_ALLOCATION_TYPE_MANAGED);
SAME_VALUE(CU_MEM_ACCESS_FLAGS_PROT_NONE);
SAME_VALUE(CU_MEM_ACCESS_FLAGS_PROT_READ);
SAME_VALUE(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME_VALUE(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES);
SAME_VALUE(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC);
SAME_VALUE(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES);
SAME_VALUE(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
SAME_VALUE(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
SAME_VALUE(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
SAME_VALUE(CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
SAME_VALUE(CU_MEMPOOL_ATTR_USED_MEM_HIGH);
SAME_VALUE(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT);
SAME_VALUE(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH);
SAME_VALUE(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
SAME_VALUE(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH);
SAME_VALUE(CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME_VALUE(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME_VALUE(CU_STREAM_CAPTURE_MODE_RELAXED);
SAME_VALUE(CU_STREAM_CAPTURE_STATUS_NONE);
SAME_VALUE(CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME_VALUE(CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SAME_VALUE(CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
SAME_VALUE(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME_VALUE(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT);
SAME_VALUE(CU_LAUNCH_ATTRIBUTE_PRIORITY);
SAME_VALUE(CU_GET_PROC_ADDRESS_SUCCESS);
SAME_VALUE(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
SAME_VALUE(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
SAME_VALUE(CU_GET_PROC_ADDRESS_DEFAULT);
SAME_VALUE(CU_GET_PROC_ADDRESS_LEGACY_STREAM);
SAME_VALUE(CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
SAME_VALUE(CU_STREAM_NON_BLOCKING);
SAME_VALUE(CU_EVENT_BLOCKING_SYNC);
SAME_VALUE(CU_EVENT_DISABLE_TIMING);
SAME_VALUE(CU_EVENT_INTERPROCESS);

#define SAME_SIZE(name) static_assert(sizeof(::name) == sizeof(ours::name) && alignof(::name) == alignof(ours::name))
#define SAME_PLACE(name, member) static_assert(offsetof(::name, member) == offsetof(ours::name, member))
SAME_SIZE(CUuuid);
SAME_SIZE(CUipcMemHandle);
SAME_SIZE(CUipcEventHandle);
SAME_SIZE(CUmemAccessDesc);
SAME_PLACE(CUmemAccessDesc, flags);
SAME_SIZE(CUmemLocation);
SAME_PLACE(CUmemLocation, type);
SAME_PLACE(CUmemLocation, id);
SAME_SIZE(CUmemAccessDesc);
SAME_PLACE(CUmemAccessDesc, flags);
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
SAME_VALUE(CU_GRAPH_NODE_TYPE_KERNEL);
SAME_VALUE(CU_GRAPH_NODE_TYPE_GRAPH);
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
