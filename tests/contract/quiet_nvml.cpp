// An NVML that does nothing: the two cards of quiet_driver.cpp, with this process and another on each.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "guest/abi/nvml.hpp"

using namespace headgate::abi;

#define QUIET extern "C" __attribute__((visibility("default")))

namespace {

constexpr unsigned long long kCardBytes = 16ull << 30;
char cards[2];
unsigned long long own_bytes = 0;

nvmlReturn_t list(unsigned* count, nvmlProcessInfo_v2_t* entries) {
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const unsigned room = *count;
  *count = 2;
  if (room < 2 || entries == nullptr) return NVML_ERROR_INSUFFICIENT_SIZE;
  entries[0] = {1, 123, 0, 0};
  entries[1] = {static_cast<unsigned>(::getpid()), own_bytes, 0, 0};
  return NVML_SUCCESS;
}

}  // namespace

// For tests: sets the bytes that the lists show for the calling process.
QUIET void quiet_own_bytes(unsigned long long bytes) { own_bytes = bytes; }

QUIET nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return NVML_SUCCESS;
}
QUIET nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  if (index > 1) return NVML_ERROR_INVALID_ARGUMENT;
  *device = reinterpret_cast<nvmlDevice_t>(&cards[index]);
  return NVML_SUCCESS;
}
QUIET nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned length) {
  const char* text = reinterpret_cast<char*>(device) == &cards[0] ? "GPU-10101010-1010-1010-1010-101010101010"
                                                                  : "GPU-11111111-1111-1111-1111-111111111111";
  if (length <= std::strlen(text)) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::strcpy(uuid, text);
  return NVML_SUCCESS;
}
QUIET nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  for (char& card : cards) {
    char own[64];
    nvmlDeviceGetUUID(reinterpret_cast<nvmlDevice_t>(&card), own, sizeof own);
    if (std::strcmp(own, uuid) != 0) continue;
    *device = reinterpret_cast<nvmlDevice_t>(&card);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}
QUIET nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t, nvmlMemory_t* memory) {
  if (memory == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *memory = {kCardBytes, kCardBytes, 0};
  return NVML_SUCCESS;
}
QUIET nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t, unsigned* count, nvmlProcessInfo_t* entries) {
  return list(count, entries);
}
