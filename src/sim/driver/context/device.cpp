// Device attributes, names and limits.
#include <cstring>

#include "sim/driver/library.hpp"

namespace headgate::sim::driver {

namespace {

int attribute(const Profile& p, int which, std::uint32_t node_device) {
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return static_cast<int>(p.max_threads_per_block);
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return static_cast<int>(p.shared_bytes_per_block);
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: return 65536;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return 32;
    case 11: return 2147483647;  // MAX_PITCH
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK: return static_cast<int>(p.registers_per_block);
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: return static_cast<int>(p.sm_clock_max_mhz * 1000);
    case 14: return 512;  // TEXTURE_ALIGNMENT
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP: return 1;
    case 17: return p.watchdog_ns != 0 ? 1 : 0;  // KERNEL_EXEC_TIMEOUT
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: {
      const std::uint32_t percent = library().state().processes[library().node->process()].mps_percent;
      return static_cast<int>(percent != 0 ? mps_sms(p, percent) : p.sm_count);
    }
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY: return 1;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS: return 1;
    case 20: return static_cast<int>(library().state().nvml[node_device].compute_mode);  // COMPUTE_MODE
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED: return library().state().nvml[node_device].ecc_off_now == 0 ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: return static_cast<int>(pci_bus(p, node_device));
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID: return static_cast<int>(p.pci_domain);
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: return static_cast<int>(p.memory_clock_max_mhz * 1000);
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: return static_cast<int>(p.memory_bus_bits);
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return static_cast<int>(p.l2_bytes);
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return static_cast<int>(p.max_threads_per_sm);
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: return static_cast<int>(p.copy_engines);
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING: return 1;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return static_cast<int>(p.capability_major);
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return static_cast<int>(p.capability_minor);
    case 78: return 1;  // STREAM_PRIORITIES_SUPPORTED
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: return static_cast<int>(p.shared_bytes_per_sm);
    case 82: return 65536;  // MAX_REGISTERS_PER_MULTIPROCESSOR
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY: return 1;
    case 89: return 1;  // CONCURRENT_MANAGED_ACCESS
    case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED: return 1;
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH: return 1;
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: return 1;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return static_cast<int>(p.shared_bytes_per_block_optin);
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: return static_cast<int>(p.max_blocks_per_sm);
    case 93:
    case 94:
    case 102:
    case 103:
    case 122:
    case 123:
    case 125: return 1;  // see cuda.h: wide and NOR stream waits, virtual memory, IPC events
    default: return 0;
  }
}

CUresult uuid(CUuuid* out, CUdevice device) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!known_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const auto bytes = uuid_bytes(library().profile(), library().visible[device]);
  std::memcpy(out->bytes, bytes.data(), sizeof out->bytes);
  return CUDA_SUCCESS;
}

CUresult total(std::size_t* bytes, CUdevice device) {
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  if (!known_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = library().profile().memory_bytes - library().profile().reserved_bytes;
  return CUDA_SUCCESS;
}

void put_text(char* to, int length, const char* from) {
  std::strncpy(to, from, static_cast<std::size_t>(length) - 1);
  to[length - 1] = 0;
}

}  // namespace

SIM_API CUresult cuDeviceGetCount(int* count) {
  SIM_ENTER(cuDeviceGetCount);
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(library().visible.size());
  return CUDA_SUCCESS;
}
SIM_API CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  SIM_ENTER(cuDeviceGet);
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  if (!known_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}
SIM_API CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  SIM_ENTER(cuDeviceGetName);
  if (!name || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!known_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  put_text(name, length, library().profile().model);
  return CUDA_SUCCESS;
}
SIM_CALL(cuDeviceGetUuid, (CUuuid * out, CUdevice device), uuid(out, device))
SIM_CALL(cuDeviceGetUuid_v2, (CUuuid * out, CUdevice device), uuid(out, device))
SIM_CALL(cuDeviceTotalMem_v2, (std::size_t* bytes, CUdevice device), total(bytes, device))
SIM_API CUresult cuDeviceTotalMem(unsigned* bytes, CUdevice device) {
  SIM_ENTER(cuDeviceTotalMem);
  std::size_t all = 0;
  SIM_TRY(total(bytes ? &all : nullptr, device));
  *bytes = all > 0xffffffffu ? 0xffffffffu : static_cast<unsigned>(all);
  return CUDA_SUCCESS;
}
SIM_API CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  SIM_ENTER(cuDeviceGetAttribute);
  SIM_TRY(static_cast<CUresult>(fault_on("cuDeviceGetAttribute", static_cast<std::uint32_t>(which))));
  if (!value || which == 0 || which > 200) return CUDA_ERROR_INVALID_VALUE;
  if (!known_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *value = attribute(library().profile(), static_cast<int>(which), library().visible[device]);
  return CUDA_SUCCESS;
}
SIM_API CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  SIM_ENTER(cuDeviceComputeCapability);
  if (!major || !minor) return CUDA_ERROR_INVALID_VALUE;
  if (!known_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *major = static_cast<int>(library().profile().capability_major);
  *minor = static_cast<int>(library().profile().capability_minor);
  return CUDA_SUCCESS;
}
SIM_API CUresult cuDeviceGetProperties(CUdevprop* properties, CUdevice device) {
  SIM_ENTER(cuDeviceGetProperties);
  if (!properties) return CUDA_ERROR_INVALID_VALUE;
  if (!known_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const Profile& p = library().profile();
  *properties = {.maxThreadsPerBlock = static_cast<int>(p.max_threads_per_block),
                 .maxThreadsDim = {1024, 1024, 64},
                 .maxGridSize = {2147483647, 65535, 65535},
                 .sharedMemPerBlock = static_cast<int>(p.shared_bytes_per_block),
                 .totalConstantMemory = 65536,
                 .SIMDWidth = 32,
                 .memPitch = 2147483647,
                 .regsPerBlock = static_cast<int>(p.registers_per_block),
                 .clockRate = static_cast<int>(p.sm_clock_max_mhz * 1000),
                 .textureAlign = 512};
  return CUDA_SUCCESS;
}
SIM_API CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice device) {
  SIM_ENTER(cuDeviceGetPCIBusId);
  if (!id || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!known_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  put_text(id, length, pci_bus_id_legacy(library().profile(), library().visible[device]).data());
  return CUDA_SUCCESS;
}
SIM_API CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* id) {
  SIM_ENTER(cuDeviceGetByPCIBusId);
  if (!device || !id) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t d = 0; d < library().visible.size(); ++d) {
    const std::string name = pci_bus_id_legacy(library().profile(), library().visible[d]).data();
    if (::strcasecmp(id, name.c_str()) != 0 && ::strcasecmp(id, name.substr(5).c_str()) != 0) continue;
    *device = static_cast<CUdevice>(d);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}
SIM_API CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  SIM_ENTER(cuDeviceCanAccessPeer);
  if (!can) return CUDA_ERROR_INVALID_VALUE;
  if (!known_device(device) || !known_device(peer)) return CUDA_ERROR_INVALID_DEVICE;
  *can = device != peer;
  return CUDA_SUCCESS;
}

}  // namespace headgate::sim::driver
