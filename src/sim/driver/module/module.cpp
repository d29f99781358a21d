#include "sim/driver/module/module.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "sim/driver/context/context_growth.hpp"
#include "sim/driver/memory/memory.hpp"

namespace headgate::sim::driver {
namespace {

struct Modules {
  std::mutex lock;
  std::vector<Module*> alive;
};
Modules& modules() { return forever<Modules>(); }

// Modules are never freed, because function handles point into them.
void end(Module* module) {
  module->word.store(0, std::memory_order_release);
  for (Function& function : module->functions) function.word.store(0, std::memory_order_release);
}

CUresult result_of(const Error& error) {
  return error.code == ErrorCode::unsupported ? CUDA_ERROR_INVALID_IMAGE : CUDA_ERROR_INVALID_PTX;
}

CUresult load(const void* image, Module** out) {
  SIM_GET(Context, context, current_context(&context));
  ptx::Module parsed;
  SIM_TRY(parse_module(image, &parsed));
  return make_module(context, std::move(parsed), out);
}

}  // namespace

CUresult parse_module(const void* image, ptx::Module* out) {
  auto parsed = ptx::parse_image(image);
  if (!parsed) return result_of(parsed.error());
  *out = std::move(*parsed);
  return CUDA_SUCCESS;
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
    function.word.store(kFunctionWord, std::memory_order_release);
  }
  if (loads_eagerly())
    for (Function& function : module->functions) SIM_TRY(load_code(&function));
  module->word.store(kModuleWord, std::memory_order_release);
  const std::lock_guard guard(modules().lock);
  modules().alive.push_back(module);
  *out = module;
  return CUDA_SUCCESS;
}

CUresult function_of(CUfunction handle, Function** out) {
  Function* function = object<Function>(handle, kFunctionWord);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  SIM_TRY(health(function->module->context));
  *out = function;
  return CUDA_SUCCESS;
}

void forget_modules(Context* context) {
  const std::lock_guard guard(modules().lock);
  std::erase_if(modules().alive, [context](Module* module) {
    if (module->context != context) return false;
    end(module);
    return true;
  });
}

namespace {

CUresult load_data(CUmodule* out, const void* image) {
  if (!out || !image) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Module, module, load(image, &module));
  *out = reinterpret_cast<CUmodule>(module);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult unload_module(Module* module) {
  const std::lock_guard guard(modules().lock);
  if (std::erase(modules().alive, module) == 0) return CUDA_ERROR_INVALID_HANDLE;
  end(module);
  for (Function& function : module->functions) unload_code(&function);
  for (const std::uint64_t address : module->globals) free_global(address);
  return CUDA_SUCCESS;
}

namespace {

CUresult unload(CUmodule handle) {
  Module* module = object<Module>(handle, kModuleWord);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  SIM_TRY(health(module->context));
  return unload_module(module);
}

CUresult load_file(CUmodule* out, const char* path) {
  if (!out || !path) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return load_data(out, text.c_str());
}

CUresult global(CUdeviceptr* address, std::size_t* bytes, CUmodule handle, const char* name) {
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  Module* module = object<Module>(handle, kModuleWord);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  SIM_TRY(health(module->context));
  return module_global(module, name, address, bytes);
}

}  // namespace

CUresult module_global(Module* module, const char* name, CUdeviceptr* address, std::size_t* bytes) {
  const ptx::Global* found = module->image.find_global(name);
  if (!found) return CUDA_ERROR_NOT_FOUND;
  if (address) *address = module->globals[static_cast<std::size_t>(found - module->image.globals.data())];
  if (bytes) *bytes = found->size_bytes;
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
SIM_CALL(cuModuleLoad, (CUmodule * out, const char* path), load_file(out, path))
SIM_CALL(cuModuleUnload, (CUmodule module), unload(module))
SIM_API CUresult cuModuleGetFunction(CUfunction* out, CUmodule handle, const char* name) {
  SIM_ENTER(cuModuleGetFunction);
  if (!out || !name) return CUDA_ERROR_INVALID_VALUE;
  Module* module = object<Module>(handle, kModuleWord);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  SIM_TRY(health(module->context));
  for (Function& function : module->functions) {
    if (function.entry->name != name) continue;
    *out = reinterpret_cast<CUfunction>(&function);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}
SIM_CALL(cuModuleGetGlobal_v2, (CUdeviceptr * address, std::size_t* bytes, CUmodule module, const char* name),
         global(address, bytes, module, name))
SIM_API CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  SIM_ENTER(cuModuleGetLoadingMode);
  if (!mode) return CUDA_ERROR_INVALID_VALUE;
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
SIM_API CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache) {
  SIM_ENTER(cuFuncSetCacheConfig);
  Function* function = nullptr;
  return function_of(handle, &function);
}
SIM_API CUresult cuFuncSetSharedMemConfig(CUfunction handle, CUsharedconfig) {
  SIM_ENTER(cuFuncSetSharedMemConfig);
  Function* function = nullptr;
  return function_of(handle, &function);
}
SIM_TELL(cuFuncGetModule, (CUmodule * out, CUfunction handle), out, Function, function, function_of(handle, &function),
         reinterpret_cast<CUmodule>(function->module))
SIM_TELL(cuFuncGetName, (const char** name, CUfunction handle), name, Function, function,
         function_of(handle, &function), function->entry->name.c_str())
SIM_API CUresult cuFuncGetParamInfo(CUfunction handle, std::size_t index, std::size_t* offset, std::size_t* bytes) {
  SIM_ENTER(cuFuncGetParamInfo);
  if (!offset) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Function, function, function_of(handle, &function));
  if (index >= function->entry->parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = function->entry->parameters[index].offset_bytes;
  if (bytes) *bytes = function->entry->parameters[index].size_bytes;
  return CUDA_SUCCESS;
}
SIM_API CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction handle) {
  SIM_ENTER(cuFuncIsLoaded);
  if (!state) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Function, function, function_of(handle, &function));
  *state = static_cast<CUfunctionLoadingState>(function->loaded.load() ? 1 : 0);  // cuda.h: LOADED, UNLOADED
  return CUDA_SUCCESS;
}
SIM_API CUresult cuFuncLoad(CUfunction handle) {
  SIM_ENTER(cuFuncLoad);
  SIM_GET(Function, function, function_of(handle, &function));
  return load_code(function);
}
SIM_API CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule handle) {
  SIM_ENTER(cuModuleGetFunctionCount);
  const Module* module = object<Module>(handle, kModuleWord);
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  *count = static_cast<unsigned>(module->functions.size());
  return CUDA_SUCCESS;
}
SIM_API CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned count, CUmodule handle) {
  SIM_ENTER(cuModuleEnumerateFunctions);
  Module* module = object<Module>(handle, kModuleWord);
  if (!functions) return CUDA_ERROR_INVALID_VALUE;
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  for (std::size_t i = 0; i < count && i < module->functions.size(); ++i)
    functions[i] = reinterpret_cast<CUfunction>(&module->functions[i]);
  return CUDA_SUCCESS;
}

}  // namespace headgate::sim::driver
