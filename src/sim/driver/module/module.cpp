#include "sim/driver/module/module.hpp"

#include <algorithm>
#include <cstring>

#include "sim/driver/context/context_growth.hpp"
#include "sim/driver/memory/memory.hpp"

namespace headgate::sim::driver {
namespace {

// Modules are never freed, because function handles point into them.
void end(Module* module) {
  module->retire();
  for (Function& function : module->functions) function.retire();
}

CUresult known(CUfunction handle) {
  Function* function = nullptr;
  return function_of(handle, &function);
}

CUresult load_data(CUmodule* out, const void* image) {
  if (!out || !image) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Context, context, current_context(&context));
  ptx::Module parsed;
  SIM_TRY(parse_module(image, &parsed));
  SIM_GET(Module, module, make_module(context, std::move(parsed), &module));
  return give(out, module);
}

}  // namespace

CUresult parse_module(const void* image, ptx::Module* out) {
  auto parsed = ptx::parse_image(image);
  if (!parsed) return parsed.error().code == ErrorCode::unsupported ? CUDA_ERROR_INVALID_IMAGE : CUDA_ERROR_INVALID_PTX;
  return give(out, std::move(*parsed));
}

CUresult make_module(Context* context, ptx::Module image, Module** out) {
  auto* module = new Module;
  module->context = context;
  module->image = std::move(image);
  for (const ptx::Global& global : module->image.globals) {
    std::uint64_t address = 0;
    const CUresult made =
        allocate_device(context, std::max<std::uint64_t>(global.size_bytes, 1), false, true, &address);
    if (made != CUDA_SUCCESS) return made;  // freed with the context
    std::memset(reinterpret_cast<void*>(address), 0, global.size_bytes);
    module->globals.push_back(address);
  }
  for (const ptx::Entry& entry : module->image.entries) {
    Function& function = module->functions.emplace_back();
    function.module = module;
    function.entry = &entry;
    function.publish();
  }
  if (loads_eagerly())
    for (Function& function : module->functions) SIM_TRY(load_code(&function));
  module->publish();
  alive<Module>().add(module);
  return give(out, module);
}

CUresult function_of(CUfunction handle, Function** out) {
  SIM_TRY(resolve(handle, out));
  return health((*out)->module->context);
}

void forget_modules(Context* context) {
  for (Module* module : alive<Module>().remove_of(context)) end(module);
}

CUresult unload_module(Module* module) {
  if (!alive<Module>().remove(module)) return CUDA_ERROR_INVALID_HANDLE;
  end(module);
  for (Function& function : module->functions) unload_code(&function);
  for (const std::uint64_t address : module->globals) free_global(address);
  return CUDA_SUCCESS;
}

CUresult module_global(Module* module, const char* name, CUdeviceptr* address, std::size_t* bytes) {
  const ptx::Global* found = module->image.find_global(name);
  if (!found) return CUDA_ERROR_NOT_FOUND;
  if (address) *address = module->globals[static_cast<std::size_t>(found - module->image.globals.data())];
  if (bytes) *bytes = found->size_bytes;
  return CUDA_SUCCESS;
}

CUresult parameter_info(const ptx::Entry& entry, std::size_t index, std::size_t* offset, std::size_t* bytes) {
  if (index >= entry.parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = entry.parameters[index].offset_bytes;
  if (bytes) *bytes = entry.parameters[index].size_bytes;
  return CUDA_SUCCESS;
}

CUresult function_attribute(int* value, CUfunction_attribute which, CUfunction handle) {
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Function, function, function_of(handle, &function));
  const ptx::Entry& entry = *function->entry;
  const Profile& profile = library().profile();
  std::uint32_t threads = 1;
  for (const std::uint32_t side : entry.maximum_block) threads *= std::max(side, 1u);
  switch (static_cast<unsigned>(which)) {
    case 0: *value = static_cast<int>(threads > 1 ? threads : profile.max_threads_per_block); break;
    case 1: *value = static_cast<int>(entry.shared_bytes); break;
    case 2: *value = 0; break;
    case 3: *value = static_cast<int>(entry.local_bytes); break;
    case 4: *value = 32; break;
    case 5:
      *value = static_cast<int>(function->module->image.version_major * 10 + function->module->image.version_minor);
      break;
    case 6: *value = static_cast<int>(profile.capability_major * 10 + profile.capability_minor); break;
    case 7: *value = 0; break;
    case 8:
      *value = function->dynamic_shared_limit ? function->dynamic_shared_limit
                                              : static_cast<int>(profile.shared_bytes_per_block);
      break;
    case 9: *value = -1; break;
    default: return which > 32 ? CUDA_ERROR_INVALID_VALUE : (*value = 0, CUDA_SUCCESS);
  }
  return CUDA_SUCCESS;
}

SIM_CALL(cuModuleLoadData, (CUmodule * out, const void* image), load_data(out, image))
SIM_CALL(cuModuleLoadDataEx, (CUmodule * out, const void* image, unsigned, CUjit_option*, void**),
         load_data(out, image))
SIM_CALL(cuModuleLoadFatBinary, (CUmodule * out, const void* image), load_data(out, image))
SIM_API CUresult cuModuleLoad(CUmodule* out, const char* path) {
  SIM_ENTER(cuModuleLoad, out, path);
  return load_file(path, [&](const void* image) { return load_data(out, image); });
}
SIM_API CUresult cuModuleUnload(CUmodule handle) {
  SIM_ENTER(cuModuleUnload);
  SIM_GET(Module, module, resolve(handle, &module));
  SIM_TRY(health(module->context));
  return unload_module(module);
}
SIM_API CUresult cuModuleGetFunction(CUfunction* out, CUmodule handle, const char* name) {
  SIM_ENTER(cuModuleGetFunction, out, name);
  SIM_GET(Module, module, resolve(handle, &module));
  SIM_TRY(health(module->context));
  for (Function& function : module->functions) {
    if (function.entry->name != name) continue;
    return give(out, &function);
  }
  return CUDA_ERROR_NOT_FOUND;
}
SIM_API CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, std::size_t* bytes, CUmodule handle, const char* name) {
  SIM_ENTER(cuModuleGetGlobal_v2, name);
  SIM_GET(Module, module, resolve(handle, &module));
  SIM_TRY(health(module->context));
  return module_global(module, name, address, bytes);
}
SIM_API CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  SIM_ENTER(cuModuleGetLoadingMode, mode);
  *mode = static_cast<CUmoduleLoadingMode>(loads_eagerly() ? 1 : 2);  // cuda.h: CU_MODULE_EAGER_LOADING, LAZY
  return CUDA_SUCCESS;
}
SIM_CALL(cuFuncGetAttribute, (int* value, CUfunction_attribute which, CUfunction function),
         function_attribute(value, which, function))
SIM_API CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute which, int value) {
  SIM_ENTER(cuFuncSetAttribute);
  SIM_GET(Function, function, function_of(handle, &function));
  if (static_cast<unsigned>(which) != 8) return CUDA_SUCCESS;
  if (value < 0 || static_cast<unsigned>(value) > library().profile().shared_bytes_per_block_optin)
    return CUDA_ERROR_INVALID_VALUE;
  function->dynamic_shared_limit = value;
  return CUDA_SUCCESS;
}
SIM_CALL(cuFuncSetCacheConfig, (CUfunction function, CUfunc_cache), known(function))
SIM_CALL(cuFuncSetSharedMemConfig, (CUfunction function, CUsharedconfig), known(function))
SIM_TELL(cuFuncGetModule, (CUmodule * out, CUfunction handle), out, Function, function, function_of(handle, &function),
         function->module)
SIM_TELL(cuFuncGetName, (const char** name, CUfunction handle), name, Function, function,
         function_of(handle, &function), function->entry->name.c_str())
SIM_API CUresult cuFuncGetParamInfo(CUfunction handle, std::size_t index, std::size_t* offset, std::size_t* bytes) {
  SIM_ENTER(cuFuncGetParamInfo, offset);
  SIM_GET(Function, function, function_of(handle, &function));
  return parameter_info(*function->entry, index, offset, bytes);
}
SIM_TELL(cuFuncIsLoaded, (CUfunctionLoadingState * state, CUfunction handle), state, Function, function,
         function_of(handle, &function), function->loaded.load() ? 1 : 0)  // cuda.h: LOADED, UNLOADED
SIM_API CUresult cuFuncLoad(CUfunction handle) {
  SIM_ENTER(cuFuncLoad);
  SIM_GET(Function, function, function_of(handle, &function));
  return load_code(function);
}
SIM_API CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule handle) {
  SIM_ENTER(cuModuleGetFunctionCount, count);
  SIM_GET(Module, module, resolve(handle, &module));
  return give(count, module->functions.size());
}
SIM_API CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned count, CUmodule handle) {
  SIM_ENTER(cuModuleEnumerateFunctions, functions);
  SIM_GET(Module, module, resolve(handle, &module));
  for (std::size_t i = 0; i < count && i < module->functions.size(); ++i)
    functions[i] = reinterpret_cast<CUfunction>(&module->functions[i]);
  return CUDA_SUCCESS;
}

}  // namespace headgate::sim::driver
