// Kernel libraries belong to no context: each context that uses one has its static arrays. They are charged to the
// share at the load for the current context, and in each other context at the library's first use.
#include "guest/limiter/memory/context_size.hpp"
#include "guest/limiter/memory/image_growth.hpp"

using namespace headgate::abi;
using namespace headgate::limiter;

namespace headgate::limiter {
namespace {

// By library: what it takes in each context. device_index: 1 if that is told.
constinit AllocationTable libraries;

std::uint64_t key_of(CUlibrary library) { return reinterpret_cast<std::uintptr_t>(library); }
std::uint64_t key_of(CUlibrary library, std::uint64_t context) {
  return key_of(library) * 0x9e3779b97f4a7c15 ^ context;
}

void know(CUlibrary library, const ImageNeeds& needs) {
  libraries.put(key_of(library), {needs.static_bytes, needs.told ? 1u : 0u, 0});
}

template <typename Needs, typename Load>
CUresult loading(CUlibrary* library, Needs needs_on, Load load) {
  const Place place = current_place();
  if (place.standing == Standing::free && !seated()) return load();
  const ImageNeeds needs = needs_on(architecture_of(place.device));
  if (!is_limited(place)) {
    const CUresult result = load();
    if (result == CUDA_SUCCESS) know(*library, needs);
    return result;
  }
  std::uint64_t took = 0;
  const CUresult result = with_image(needs, place, load, [=] { forward(driver.cuLibraryUnload, *library); }, took);
  if (result != CUDA_SUCCESS) return result;
  know(*library, needs);
  if (took != 0 || needs.told) untold.put(key_of(*library, owner_here()), {took, place.device_index, owner_here()});
  return result;
}

// use(): a call that may bring the library's arrays into the current context. They cannot be removed from one context
// alone: if their size is not told and too large, they stay charged and the call is still refused.
template <typename Use>
CUresult using_library(CUlibrary library, Use use) {
  Allocation known, loaded;
  if (!seated() || !libraries.look(key_of(library), known)) return use();
  const Place place = current_place();
  const std::uint64_t context = owner_here();
  if (!is_limited(place) || context == 0 || untold.look(key_of(library, context), loaded)) return use();
  const ImageNeeds needs{.static_bytes = known.bytes, .code_bytes = 0, .told = known.device_index != 0};
  std::uint64_t took = 0;
  const CUresult result = with_image(needs, place, use, [] {}, took);
  if (result == CUDA_SUCCESS && (took != 0 || needs.told))
    untold.put(key_of(library, context), {took, place.device_index, context});
  return result;
}

// A launch makes no check, so a kernel with too much local memory is refused here.
CUresult if_local_fits(CUkernel kernel, CUresult result) {
  int local = 0;
  const Place place = result == CUDA_SUCCESS ? current_place() : Place{};
  if (!is_limited(place) ||
      forward(driver.cuKernelGetAttribute, &local, kLocalBytes, kernel, place.device) != CUDA_SUCCESS)
    return result;
  return has_room_for_local(place, local) ? result : refusal();
}

}  // namespace

void libraries_reset_after_fork() { libraries.forget_after_fork(); }

unsigned architecture_of(CUdevice device) {
  int major = 0, minor = 0;
  const bool told = forward(driver.cuDeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                            device) == CUDA_SUCCESS &&
                    forward(driver.cuDeviceGetAttribute, &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                            device) == CUDA_SUCCESS;
  return told && major > 0 ? static_cast<unsigned>(10 * major + minor) : 0;
}

bool loads_lazily() {
  constexpr unsigned kLazy = 2;  // cuda.h: CU_MODULE_LAZY_LOADING
  CUmoduleLoadingMode mode{};
  return forward(driver.cuModuleGetLoadingMode, &mode) == CUDA_SUCCESS && mode == kLazy;
}

}  // namespace headgate::limiter

HEADGATE_HOOK CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jitOptions,
                                         void** jitOptionsValues, unsigned numJitOptions,
                                         CUlibraryOption* libraryOptions, void** libraryOptionValues,
                                         unsigned numLibraryOptions) {
  return loading(
      library, [=](unsigned architecture) { return needs_of_image(code, architecture); },
      [=] {
        return forward(driver.cuLibraryLoadData, library, code, jitOptions, jitOptionsValues, numJitOptions,
                       libraryOptions, libraryOptionValues, numLibraryOptions);
      });
}

HEADGATE_HOOK CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* fileName, CUjit_option* jitOptions,
                                             void** jitOptionsValues, unsigned numJitOptions,
                                             CUlibraryOption* libraryOptions, void** libraryOptionValues,
                                             unsigned numLibraryOptions) {
  return loading(
      library, [=](unsigned architecture) { return needs_of_file(fileName, architecture); },
      [=] {
        return forward(driver.cuLibraryLoadFromFile, library, fileName, jitOptions, jitOptionsValues, numJitOptions,
                       libraryOptions, libraryOptionValues, numLibraryOptions);
      });
}

HEADGATE_HOOK CUresult cuLibraryUnload(CUlibrary library) {
  const CUresult result = forward(driver.cuLibraryUnload, library);
  Allocation known;
  if (result != CUDA_SUCCESS || !seated() || !libraries.take(key_of(library), known)) return result;
  const auto is_out_of = [&](std::uint64_t context) {
    Allocation loaded;
    if (untold.take(key_of(library, context), loaded)) residual_falls(loaded.device_index, loaded.bytes);
  };
  is_out_of(owner_here());
  CUcontext handles[kMaxKnownContexts];
  const std::uint32_t count = known_contexts(handles);
  for (std::uint32_t i = 0; i < count; ++i) is_out_of(reinterpret_cast<std::uintptr_t>(handles[i]));
  return result;
}

HEADGATE_HOOK CUresult cuLibraryGetKernel(CUkernel* pKernel, CUlibrary library, const char* name) {
  const CUresult result =
      using_library(library, [=] { return forward(driver.cuLibraryGetKernel, pKernel, library, name); });
  return result == CUDA_SUCCESS && seated() ? if_local_fits(*pKernel, result) : result;
}

HEADGATE_HOOK CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned numKernels, CUlibrary lib) {
  return using_library(lib, [=] { return forward(driver.cuLibraryEnumerateKernels, kernels, numKernels, lib); });
}

HEADGATE_HOOK CUresult cuLibraryGetModule(CUmodule* pMod, CUlibrary library) {
  return using_library(library, [=] { return forward(driver.cuLibraryGetModule, pMod, library); });
}

HEADGATE_HOOK CUresult cuLibraryGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
  return using_library(library, [=] { return forward(driver.cuLibraryGetGlobal, dptr, bytes, library, name); });
}

HEADGATE_HOOK CUresult cuLibraryGetManaged(CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
  return using_library(library, [=] { return forward(driver.cuLibraryGetManaged, dptr, bytes, library, name); });
}

HEADGATE_HOOK CUresult cuLibraryGetUnifiedFunction(void** fptr, CUlibrary library, const char* symbol) {
  return using_library(library, [=] { return forward(driver.cuLibraryGetUnifiedFunction, fptr, library, symbol); });
}

HEADGATE_HOOK CUresult cuKernelGetFunction(CUfunction* pFunc, CUkernel kernel) {
  const auto get = [=] { return forward(driver.cuKernelGetFunction, pFunc, kernel); };
  CUlibrary library = nullptr;
  if (!seated() || forward(driver.cuKernelGetLibrary, &library, kernel) != CUDA_SUCCESS) return get();
  const CUresult result = using_library(library, get);
  return if_local_fits(kernel, result);
}
