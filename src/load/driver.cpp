#include "load/driver.hpp"

#include <dlfcn.h>

namespace headgate::load {

Result<Driver> open_driver() {
  Driver driver;
  driver.library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (driver.library == nullptr) {
    const char* why = ::dlerror();
    return fail(ErrorCode::unreachable,
                std::string("no CUDA driver: ") + (why == nullptr ? "libcuda.so.1 did not load" : why),
                "install an NVIDIA driver, or start this under 'headgate run --sim'");
  }
#define X(member, name, type)                                                    \
  driver.member = reinterpret_cast<type*>(::dlsym(driver.library, name));        \
  if (driver.member == nullptr) {                                                \
    return fail(ErrorCode::unreachable, "the CUDA driver has no function " name, \
                "a driver of CUDA 11.4 or newer is needed");                     \
  }
  HEADGATE_LOAD_DRIVER(X)
#undef X
#define X(member, name, type) driver.member = reinterpret_cast<type*>(::dlsym(driver.library, name));
  HEADGATE_LOAD_DRIVER_OPTIONAL(X)
#undef X
  return driver;
}

namespace {

const char* name_of(CUresult result) {
  switch (result) {
    case CUDA_ERROR_INVALID_VALUE: return "CUDA_ERROR_INVALID_VALUE";
    case CUDA_ERROR_OUT_OF_MEMORY: return "CUDA_ERROR_OUT_OF_MEMORY";
    case CUDA_ERROR_NOT_INITIALIZED: return "CUDA_ERROR_NOT_INITIALIZED";
    case CUDA_ERROR_DEINITIALIZED: return "CUDA_ERROR_DEINITIALIZED";
    case CUDA_ERROR_NO_DEVICE: return "CUDA_ERROR_NO_DEVICE";
    case CUDA_ERROR_INVALID_DEVICE: return "CUDA_ERROR_INVALID_DEVICE";
    case CUDA_ERROR_INVALID_IMAGE: return "CUDA_ERROR_INVALID_IMAGE";
    case CUDA_ERROR_INVALID_CONTEXT: return "CUDA_ERROR_INVALID_CONTEXT";
    case CUDA_ERROR_INVALID_PTX: return "CUDA_ERROR_INVALID_PTX";
    case CUDA_ERROR_INVALID_HANDLE: return "CUDA_ERROR_INVALID_HANDLE";
    case CUDA_ERROR_NOT_FOUND: return "CUDA_ERROR_NOT_FOUND";
    case CUDA_ERROR_NOT_READY: return "CUDA_ERROR_NOT_READY";
    case CUDA_ERROR_NOT_PERMITTED: return "CUDA_ERROR_NOT_PERMITTED";
    case CUDA_ERROR_NOT_SUPPORTED: return "CUDA_ERROR_NOT_SUPPORTED";
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: return "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED";
    case CUDA_ERROR_UNKNOWN: return "CUDA_ERROR_UNKNOWN";
    default: return nullptr;
  }
}

}  // namespace

std::string words_for(const char* call, CUresult result) {
  if (result == CUDA_SUCCESS) {
    return std::string(call) + ": ok";
  }
  const std::string number = std::to_string(static_cast<unsigned>(result));
  const char* name = name_of(result);
  if (name == nullptr) {
    return std::string(call) + ": CUDA error " + number;
  }
  return std::string(call) + ": " + name + " (" + number + ")";
}

Result<Done> check(const char* call, CUresult result) {
  if (result == CUDA_SUCCESS) {
    return Done{};
  }
  return fail(result == CUDA_ERROR_NOT_PERMITTED ? ErrorCode::denied : ErrorCode::failed, words_for(call, result));
}

}  // namespace headgate::load
