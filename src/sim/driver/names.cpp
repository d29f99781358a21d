// cuGetProcAddress, cuGetExportTable, cuGetErrorName and cuGetErrorString.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "guest/abi/result_name.hpp"
#include "sim/driver/library.hpp"
#include "sim/driver/proc_address.hpp"

namespace headgate::sim::driver {
namespace {

struct ErrorName {
  unsigned value;
  const char* name;
};

constexpr ErrorName kErrors[] = {
#define CU_RESULT(value, name) {value, #name},
#include "guest/abi/cuda_values.def"
};

// Converts "CUDA_ERROR_OUT_OF_MEMORY" to "out of memory".
const char* error_words(CUresult error) {
  struct Words {
    char text[64];
  };
  static const auto& all = *[] {
    auto* made = new std::vector<Words>;
    for (const ErrorName& known : kErrors) {
      std::string_view name = known.name;
      name.remove_prefix(name.starts_with("CUDA_ERROR_") ? 11 : 5);
      Words words{};
      for (std::size_t i = 0; i < name.size() && i + 1 < sizeof words.text; ++i) {
        words.text[i] =
            name[i] == '_' ? ' ' : static_cast<char>(name[i] >= 'A' && name[i] <= 'Z' ? name[i] - 'A' + 'a' : name[i]);
      }
      made->push_back(words);
    }
    return made;
  }();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (kErrors[i].value == error) return error == CUDA_SUCCESS ? "no error" : all[i].text;
  }
  return nullptr;
}

bool quiet_wished() {
  const char* level = std::getenv("HEADGATE_LOG");
  return level && std::string_view(level) == "off";
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
  if (said.exchange(true) || quiet_wished()) return CUDA_ERROR_NOT_FOUND;
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
