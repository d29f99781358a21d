#include "driver.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "guest/abi/result_name.hpp"

namespace headgate::tenant {
namespace {

[[noreturn]] void cannot(const std::string& road, const std::string& why) {
  std::printf("{\"ok\":false,\"road\":\"%s\",\"error\":\"%s\"}\n", road.c_str(), why.c_str());
  std::exit(3);
}

}  // namespace

#ifdef HEADGATE_TENANT_LINKED

extern "C" {
#define CALL(name) abi::name##_t name;
TENANT_CALLS(CALL)
#undef CALL
cuIpcGetMemHandle_t cuIpcGetMemHandle;
}

Driver reach_driver(const std::string& road) {
  if (!road.empty() && road != "linked") cannot(road, "this program is linked to the driver: its only road is linked");
  Driver driver;
#define CALL(name) driver.name = &headgate::tenant::name;
  TENANT_CALLS(CALL)
#undef CALL
  driver.cuIpcGetMemHandle = &headgate::tenant::cuIpcGetMemHandle;
  return driver;
}

#else

namespace {

void* open_library(const std::string& road, int flags) {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | flags);
  if (library == nullptr) cannot(road, "libcuda.so.1 cannot be loaded");
  return library;
}

// cuGetProcAddress takes names without a version suffix; the requested CUDA version selects the variant.
std::string base_name(std::string_view name) {
  for (std::string_view version : {"_v2", "_v3"}) {
    if (name.ends_with(version)) name.remove_suffix(version.size());
  }
  return std::string(name);
}

template <typename Find>
Driver fill(const std::string& road, Find find) {
  Driver driver;
  const auto take = [&](const char* name) {
    void* found = find(name);
    if (found == nullptr) cannot(road, std::string(name) + " is not to be found");
    return found;
  };
#define CALL(name) driver.name = reinterpret_cast<abi::name##_t*>(take(#name));
  TENANT_CALLS(CALL)
#undef CALL
  driver.cuIpcGetMemHandle = reinterpret_cast<cuIpcGetMemHandle_t*>(take("cuIpcGetMemHandle"));
  return driver;
}

constexpr int kCudaVersion = 12000;

Driver by_get_proc_address() {
  void* library = open_library("proc", RTLD_LOCAL);
  const auto get = reinterpret_cast<abi::cuGetProcAddress_v2_t*>(::dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) cannot("proc", "cuGetProcAddress_v2 is not to be found");
  return fill("proc", [get](const char* name) -> void* {
    void* found = nullptr;
    auto status = abi::CU_GET_PROC_ADDRESS_SUCCESS;
    const abi::CUresult result =
        get(base_name(name).c_str(), &found, kCudaVersion, abi::CU_GET_PROC_ADDRESS_DEFAULT, &status);
    return result == abi::CUDA_SUCCESS && status == abi::CU_GET_PROC_ADDRESS_SUCCESS ? found : nullptr;
  });
}

}  // namespace

Driver reach_driver(const std::string& road) {
  if (road.empty() || road == "dlopen") {
    void* library = open_library("dlopen", RTLD_LOCAL);
    return fill("dlopen", [library](const char* name) { return ::dlsym(library, name); });
  }
  if (road == "global") {
    static_cast<void>(open_library("global", RTLD_GLOBAL));
    return fill("global", [](const char* name) { return ::dlsym(RTLD_DEFAULT, name); });
  }
  if (road == "proc") return by_get_proc_address();
  cannot(road, "no such road: dlopen, global or proc");
}

#endif

std::string result_name(abi::CUresult result) {
  const char* const name = abi::name_of(result);
  return name != nullptr ? name : "CUDA_ERROR_" + std::to_string(static_cast<unsigned>(result));
}

}  // namespace headgate::tenant
