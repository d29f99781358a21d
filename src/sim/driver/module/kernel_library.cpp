// Libraries of kernels that belong to no context. Each context that uses one gets its module at first use.
#include <fstream>
#include <iterator>
#include <map>

#include "sim/driver/module/module.hpp"

namespace headgate::sim::driver {

namespace {

constexpr std::uint32_t kLibraryWord = 0x686c6962, kKernelWord = 0x686b6572;

struct KernelLibrary;

struct Kernel {
  std::atomic<std::uint32_t> word{0};
  KernelLibrary* library = nullptr;
  std::size_t index = 0;  // among the image's entries
};

struct KernelLibrary {
  std::atomic<std::uint32_t> word{0};
  ptx::Module image;
  std::deque<Kernel> kernels;
  std::mutex lock;
  std::map<Context*, Module*> modules;  // a module ends with its context
};

// Never freed, because kernel handles point into them.
KernelLibrary* new_library() {
  static std::mutex lock;
  static auto* const forever = new std::deque<KernelLibrary>;
  const std::lock_guard guard(lock);
  return &forever->emplace_back();
}

CUresult library_of(CUlibrary handle, KernelLibrary** out) {
  *out = object<KernelLibrary>(handle, kLibraryWord);
  return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult kernel_of(CUkernel handle, Kernel** out) {
  *out = object<Kernel>(handle, kKernelWord);
  return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult module_in(KernelLibrary* library, Context* context, Module** out) {
  const std::lock_guard guard(library->lock);
  Module*& known = library->modules[context];
  if (known == nullptr || known->word.load(std::memory_order_acquire) != kModuleWord)
    SIM_TRY(make_module(context, library->image, &known));
  *out = known;
  return CUDA_SUCCESS;
}

CUresult load(CUlibrary* out, const void* code) {
  if (!out || !code) return CUDA_ERROR_INVALID_VALUE;
  ptx::Module image;
  SIM_TRY(parse_module(code, &image));
  KernelLibrary* const library = new_library();
  library->image = std::move(image);
  for (std::size_t i = 0; i < library->image.entries.size(); ++i) {
    Kernel& kernel = library->kernels.emplace_back();
    kernel.library = library;
    kernel.index = i;
    kernel.word.store(kKernelWord, std::memory_order_release);
  }
  library->word.store(kLibraryWord, std::memory_order_release);
  *out = reinterpret_cast<CUlibrary>(library);
  return CUDA_SUCCESS;
}

CUresult current_module(CUlibrary handle, Module** out) {
  Context* context = nullptr;
  SIM_GET(KernelLibrary, library, library_of(handle, &library));
  SIM_TRY(current_context(&context));
  return module_in(library, context, out);
}

CUresult current_function(CUkernel handle, CUfunction* out) {
  Context* context = nullptr;
  Function* function = nullptr;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Kernel, kernel, kernel_of(handle, &kernel));
  SIM_TRY(current_context(&context));
  SIM_TRY(function_in(reinterpret_cast<CUfunction>(kernel), context, &function));
  *out = reinterpret_cast<CUfunction>(function);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult function_in(CUfunction handle, Context* context, Function** out) {
  const Kernel* kernel = object<Kernel>(handle, kKernelWord);
  if (kernel == nullptr) return function_of(handle, out);
  SIM_GET(Module, module, module_in(kernel->library, context, &module));
  *out = &module->functions[kernel->index];
  return CUDA_SUCCESS;
}

SIM_CALL(cuLibraryLoadData,
         (CUlibrary * out, const void* code, CUjit_option*, void**, unsigned, CUlibraryOption*, void**, unsigned),
         load(out, code))
SIM_API CUresult cuLibraryLoadFromFile(CUlibrary* out, const char* path, CUjit_option*, void**, unsigned,
                                       CUlibraryOption*, void**, unsigned) {
  SIM_ENTER(cuLibraryLoadFromFile);
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return load(out, text.c_str());
}
SIM_API CUresult cuLibraryUnload(CUlibrary handle) {
  SIM_ENTER(cuLibraryUnload);
  SIM_GET(KernelLibrary, library, library_of(handle, &library));
  library->word.store(0, std::memory_order_release);
  for (Kernel& kernel : library->kernels) kernel.word.store(0, std::memory_order_release);
  const std::lock_guard guard(library->lock);
  for (const auto& [context, module] : library->modules)
    if (module != nullptr) (void)unload_module(module);
  library->modules.clear();
  return CUDA_SUCCESS;
}
SIM_API CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary handle, const char* name) {
  SIM_ENTER(cuLibraryGetKernel);
  if (!out || !name) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(KernelLibrary, library, library_of(handle, &library));
  for (Kernel& kernel : library->kernels) {
    if (library->image.entries[kernel.index].name != name) continue;
    *out = reinterpret_cast<CUkernel>(&kernel);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}
SIM_TELL(cuLibraryGetKernelCount, (unsigned* out, CUlibrary handle), out, KernelLibrary, library,
         library_of(handle, &library), static_cast<unsigned>(library->kernels.size()))
SIM_API CUresult cuLibraryEnumerateKernels(CUkernel* out, unsigned count, CUlibrary handle) {
  SIM_ENTER(cuLibraryEnumerateKernels);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(KernelLibrary, library, library_of(handle, &library));
  for (unsigned i = 0; i < count && i < library->kernels.size(); ++i)
    out[i] = reinterpret_cast<CUkernel>(&library->kernels[i]);
  return CUDA_SUCCESS;
}
SIM_TELL(cuLibraryGetModule, (CUmodule * out, CUlibrary handle), out, Module, module, current_module(handle, &module),
         reinterpret_cast<CUmodule>(module))
SIM_API CUresult cuLibraryGetGlobal(CUdeviceptr* address, std::size_t* bytes, CUlibrary handle, const char* name) {
  SIM_ENTER(cuLibraryGetGlobal);
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Module, module, current_module(handle, &module));
  return module_global(module, name, address, bytes);
}
SIM_CALL(cuKernelGetFunction, (CUfunction * out, CUkernel kernel), current_function(kernel, out))
SIM_TELL(cuKernelGetLibrary, (CUlibrary * out, CUkernel handle), out, Kernel, kernel, kernel_of(handle, &kernel),
         reinterpret_cast<CUlibrary>(kernel->library))
SIM_TELL(cuKernelGetName, (const char** out, CUkernel handle), out, Kernel, kernel, kernel_of(handle, &kernel),
         kernel->library->image.entries[kernel->index].name.c_str())
SIM_API CUresult cuKernelGetParamInfo(CUkernel handle, std::size_t index, std::size_t* offset, std::size_t* bytes) {
  SIM_ENTER(cuKernelGetParamInfo);
  if (!offset) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Kernel, kernel, kernel_of(handle, &kernel));
  const auto& parameters = kernel->library->image.entries[kernel->index].parameters;
  if (index >= parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = parameters[index].offset_bytes;
  if (bytes) *bytes = parameters[index].size_bytes;
  return CUDA_SUCCESS;
}
SIM_API CUresult cuKernelGetAttribute(int* out, CUfunction_attribute which, CUkernel kernel, CUdevice) {
  SIM_ENTER(cuKernelGetAttribute);
  CUfunction function = nullptr;
  SIM_TRY(current_function(kernel, &function));
  return function_attribute(out, which, function);
}

}  // namespace headgate::sim::driver
