#include "guest/limiter/route/driver.hpp"

#include <dlfcn.h>

#include <atomic>

#include "guest/bare/elf.hpp"
#include "guest/bare/keep_errno.hpp"
#include "guest/limiter/route/real_dl.hpp"

namespace headgate::limiter {

constinit Driver driver{};
constinit Nvml nvml{};

namespace {

struct Library {
  const char* soname;
  void (*fill)(void* handle);
  std::atomic<bool> filled{false};
  std::atomic<bool> sought_behind_us{false};
  bare::Object object{};
};

template <typename Function>
void fill_slot(Function*& slot, void* handle, const char* name) {
  __atomic_store_n(&slot, reinterpret_cast<Function*>(real_dl().dlsym(handle, name)), __ATOMIC_RELEASE);
}

void fill_driver(void* handle) {
#define CU_FN(name, kind, since, parameters, arguments) fill_slot(driver.name, handle, #name);
#include "guest/abi/cuda_table.def"
}

void fill_nvml(void* handle) {
#define NVML_FN(name, kind, parameters, arguments) fill_slot(nvml.name, handle, #name);
#include "guest/abi/nvml_table.def"
}

constinit Library cuda_library{kDriverSoname, &fill_driver};
constinit Library nvml_library{kNvmlSoname, &fill_nvml};

// No lock. Another thread may hold the dynamic linker's lock while it waits for us (a constructor of the driver that
// looks up a name), so our lock could deadlock. Racing threads store the same values.
bool ensure(Library& library, int mode) {
  if (library.filled.load(std::memory_order_acquire)) return true;
  if (real_dl().dlsym == nullptr) return false;
  const bare::KeepErrno keep_errno;
  if (void* handle = open_library(library.soname, mode); handle != nullptr) {
    // The reference is kept, so that the functions stay loaded.
    bare::Object object;
    if (!bare::object_named(library.soname, object)) return false;
    library.object = object;
    library.fill(handle);
    library.filled.store(true, std::memory_order_release);
    return true;
  }
  if ((mode & RTLD_NOLOAD) == 0 && !library.sought_behind_us.exchange(true)) {
    // No driver on this machine: definitions by the program itself are what it would call without us.
    library.fill(RTLD_NEXT);
  }
  return false;
}

bool owns(const Library& library, const void* address) {
  return library.filled.load(std::memory_order_acquire) && bare::covers(library.object, address);
}

}  // namespace

bool load_driver() { return ensure(cuda_library, RTLD_LAZY | RTLD_LOCAL); }
bool load_nvml() { return ensure(nvml_library, RTLD_LAZY | RTLD_LOCAL); }
bool driver_is_loaded() { return ensure(cuda_library, RTLD_LAZY | RTLD_NOLOAD); }
bool nvml_is_loaded() { return ensure(nvml_library, RTLD_LAZY | RTLD_NOLOAD); }
bool driver_owns(const void* address) { return owns(cuda_library, address); }
bool nvml_owns(const void* address) { return owns(nvml_library, address); }

}  // namespace headgate::limiter
