// cuGetProcAddress, cuGetExportTable, cuGetErrorName and cuGetErrorString.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "guest/abi/result_name.hpp"
#include "sim/driver/library.hpp"
#include "sim/driver/proc_address.hpp"
#include "sim/exports.hpp"

namespace headgate::sim::driver {
namespace {

// Converts "CUDA_ERROR_OUT_OF_MEMORY" to "out of memory".
const char* error_words(CUresult error) {
  const char* name = name_of(error);
  if (error == CUDA_SUCCESS || !name) return name ? "no error" : nullptr;
  static std::mutex lock;
  const std::lock_guard guard(lock);
  std::string& words = forever<std::map<CUresult, std::string>>()[error];
  if (!words.empty()) return words.c_str();
  words = name + (std::string_view(name).starts_with("CUDA_ERROR_") ? 11 : 5);
  for (char& c : words) c = c == '_' ? ' ' : static_cast<char>(c | 0x20);
  return words.c_str();
}

CUresult proc_address(const char* symbol, void** out, int version, cuuint64_t flags,
                      CUdriverProcAddressQueryResult* status) {
  if (!symbol || !out || flags > (CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const ProcAddress found = find_proc_address(symbol, version, per_thread, cuda_version());
  *out = const_cast<void*>(found.entry);
  if (status) *status = found.status;
  return found.entry ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

// Hides the functions that came after the node's driver release when the library is loaded.
__attribute__((constructor)) void export_only_this_release() {
  hide_from_dlsym(reinterpret_cast<const void*>(&export_only_this_release), entries_newer_than(cuda_version()));
}

}  // namespace

SIM_API CUresult cuGetProcAddress(const char* symbol, void** out, int version, cuuint64_t flags) {
  SIM_TRY(static_cast<CUresult>(fault("cuGetProcAddress")));
  return proc_address(symbol, out, version, flags, nullptr);
}
SIM_API CUresult cuGetProcAddress_v2(const char* symbol, void** out, int version, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult* status) {
  SIM_TRY(static_cast<CUresult>(fault("cuGetProcAddress_v2")));
  return proc_address(symbol, out, version, flags, status);
}
SIM_API CUresult cuGetErrorName(CUresult error, const char** text) {
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  *text = name_of(error);
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
SIM_API CUresult cuGetErrorString(CUresult error, const char** text) {
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  *text = error_words(error);
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
// The tables that the CUDA runtime asks for are undocumented, so none is served. We print the reason because the
// runtime's message does not give it. See docs/runtime-programs.md.
SIM_API CUresult cuGetExportTable(const void** out, const CUuuid* id) {
  SIM_TRY(static_cast<CUresult>(fault("cuGetExportTable")));
  if (!out || !id) return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  static std::atomic<bool> said{false};
  const char* level = std::getenv("HEADGATE_LOG");
  if (said.exchange(true) || (level && std::string_view(level) == "off")) return CUDA_ERROR_NOT_FOUND;
  char name[33] = {};
  for (std::size_t i = 0; i < sizeof id->bytes; ++i)
    std::snprintf(name + 2 * i, 3, "%02x", static_cast<unsigned>(static_cast<unsigned char>(id->bytes[i])));
  std::fprintf(
      stderr,
      "headgate simulator: this program uses the CUDA runtime (cuGetExportTable, table %s), which the simulator "
      "does not serve: use the driver API (cuInit, cuLaunchKernel, ...) here, or a real GPU\n",
      name);
  return CUDA_ERROR_NOT_FOUND;
}

}  // namespace headgate::sim::driver
