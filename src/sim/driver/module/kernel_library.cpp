// Libraries of kernels that belong to no context. Each context that uses one gets its module at first use.
#include <map>

#include "sim/driver/module/module.hpp"

namespace headgate::sim::driver {
namespace {

struct KernelLibrary;

struct Kernel : Handled<0x686b6572> {
  KernelLibrary* library = nullptr;
  std::size_t index = 0;  // among the image's entries
};

struct KernelLibrary : Handled<0x686c6962> {
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

CUresult module_in(KernelLibrary* library, Context* context, Module** out) {
  const std::lock_guard guard(library->lock);
  Module*& known = library->modules[context];
  if (known == nullptr || !known->valid()) SIM_TRY(make_module(context, library->image, &known));
  return give(out, known);
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
    kernel.publish();
  }
  library->publish();
  return give(out, library);
}

CUresult current_module(CUlibrary handle, Module** out) {
  SIM_GET(KernelLibrary, library, resolve(handle, &library));
  SIM_GET(Context, context, current_context(&context));
  return module_in(library, context, out);
}

CUresult current_function(CUkernel handle, CUfunction* out) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Kernel, kernel, resolve(handle, &kernel));
  SIM_GET(Context, context, current_context(&context));
  SIM_GET(Function, function, function_in(reinterpret_cast<CUfunction>(kernel), context, &function));
  return give(out, function);
}

}  // namespace

CUresult function_in(CUfunction handle, Context* context, Function** out) {
  const Kernel* kernel = object<Kernel>(handle);
  if (kernel == nullptr) return function_of(handle, out);
  SIM_GET(Module, module, module_in(kernel->library, context, &module));
  return give(out, &module->functions[kernel->index]);
}

SIM_CALL(cuLibraryLoadData,
         (CUlibrary * out, const void* code, CUjit_option*, void**, unsigned, CUlibraryOption*, void**, unsigned),
         load(out, code))
SIM_API CUresult cuLibraryLoadFromFile(CUlibrary* out, const char* path, CUjit_option*, void**, unsigned,
                                       CUlibraryOption*, void**, unsigned) {
  SIM_ENTER(cuLibraryLoadFromFile, path);
  return load_file(path, [&](const void* image) { return load(out, image); });
}
SIM_API CUresult cuLibraryUnload(CUlibrary handle) {
  SIM_ENTER(cuLibraryUnload);
  SIM_GET(KernelLibrary, library, resolve(handle, &library));
  library->retire();
  for (Kernel& kernel : library->kernels) kernel.retire();
  const std::lock_guard guard(library->lock);
  for (const auto& [context, module] : library->modules)
    if (module != nullptr) (void)unload_module(module);
  library->modules.clear();
  return CUDA_SUCCESS;
}
SIM_API CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary handle, const char* name) {
  SIM_ENTER(cuLibraryGetKernel, out, name);
  SIM_GET(KernelLibrary, library, resolve(handle, &library));
  for (Kernel& kernel : library->kernels) {
    if (library->image.entries[kernel.index].name != name) continue;
    return give(out, &kernel);
  }
  return CUDA_ERROR_NOT_FOUND;
}
SIM_TELL(cuLibraryGetKernelCount, (unsigned* out, CUlibrary handle), out, KernelLibrary, library,
         resolve(handle, &library), static_cast<unsigned>(library->kernels.size()))
SIM_API CUresult cuLibraryEnumerateKernels(CUkernel* out, unsigned count, CUlibrary handle) {
  SIM_ENTER(cuLibraryEnumerateKernels, out);
  SIM_GET(KernelLibrary, library, resolve(handle, &library));
  for (unsigned i = 0; i < count && i < library->kernels.size(); ++i)
    out[i] = reinterpret_cast<CUkernel>(&library->kernels[i]);
  return CUDA_SUCCESS;
}
SIM_TELL(cuLibraryGetModule, (CUmodule * out, CUlibrary handle), out, Module, module, current_module(handle, &module),
         module)
SIM_API CUresult cuLibraryGetGlobal(CUdeviceptr* address, std::size_t* bytes, CUlibrary handle, const char* name) {
  SIM_ENTER(cuLibraryGetGlobal, name);
  SIM_GET(Module, module, current_module(handle, &module));
  return module_global(module, name, address, bytes);
}
SIM_CALL(cuKernelGetFunction, (CUfunction * out, CUkernel kernel), current_function(kernel, out))
SIM_TELL(cuKernelGetLibrary, (CUlibrary * out, CUkernel handle), out, Kernel, kernel, resolve(handle, &kernel),
         kernel->library)
SIM_TELL(cuKernelGetName, (const char** out, CUkernel handle), out, Kernel, kernel, resolve(handle, &kernel),
         kernel->library->image.entries[kernel->index].name.c_str())
SIM_API CUresult cuKernelGetParamInfo(CUkernel handle, std::size_t index, std::size_t* offset, std::size_t* bytes) {
  SIM_ENTER(cuKernelGetParamInfo, offset);
  SIM_GET(Kernel, kernel, resolve(handle, &kernel));
  return parameter_info(kernel->library->image.entries[kernel->index], index, offset, bytes);
}
SIM_API CUresult cuKernelGetAttribute(int* out, CUfunction_attribute which, CUkernel kernel, CUdevice) {
  SIM_ENTER(cuKernelGetAttribute);
  CUfunction function = nullptr;
  SIM_TRY(current_function(kernel, &function));
  return function_attribute(out, which, function);
}

}  // namespace headgate::sim::driver
