#include "load/driver.hpp"

#include <dlfcn.h>

#include "guest/abi/result_name.hpp"

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

std::string words_for(const char* call, CUresult result) {
  if (result == CUDA_SUCCESS) return std::string(call) + ": ok";
  const std::string number = std::to_string(static_cast<unsigned>(result));
  const char* name = name_of(result);
  if (name == nullptr) return std::string(call) + ": CUDA error " + number;
  return std::string(call) + ": " + name + " (" + number + ")";
}

Result<void> check(const char* call, CUresult result) {
  if (result == CUDA_SUCCESS) return {};
  return fail(result == CUDA_ERROR_NOT_PERMITTED ? ErrorCode::denied : ErrorCode::failed, words_for(call, result));
}

}  // namespace headgate::load
