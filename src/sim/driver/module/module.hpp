// Modules, libraries and functions, made from parsed PTX text.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "base/whole_file.hpp"
#include "sim/driver/library.hpp"
#include "sim/ptx.hpp"

namespace headgate::sim::driver {

struct Module;

struct Function : Handled<0x6866756e> {
  Module* module = nullptr;
  const ptx::Entry* entry = nullptr;
  int dynamic_shared_limit = 0;
  std::atomic<bool> loaded{false};  // its code is on the device
};

struct Module : Handled<0x686d6f64> {
  Context* context = nullptr;
  ptx::Module image;
  std::deque<Function> functions;      // one per entry
  std::vector<std::uint64_t> globals;  // addresses, in the order of image.globals
};

// INVALID_HANDLE unless the function belongs to that context.
CUresult function_of(CUfunction handle, Function** out);
// The same for a handle that may be a library's kernel: returns its function in that context.
CUresult function_in(CUfunction handle, Context* context, Function** out);
void forget_modules(Context* context);

// The steps of cuModuleLoadData, also used for libraries. INVALID_IMAGE, INVALID_PTX; OUT_OF_MEMORY.
CUresult parse_module(const void* image, ptx::Module* out);
CUresult make_module(Context* context, ptx::Module image, Module** out);
CUresult unload_module(Module* module);
CUresult module_global(Module* module, const char* name, CUdeviceptr* address, std::size_t* bytes);
CUresult function_attribute(int* value, CUfunction_attribute which, CUfunction handle);
CUresult parameter_info(const ptx::Entry& entry, std::size_t index, std::size_t* offset, std::size_t* bytes);

// Calls load() with the image in a file. A directory or pipe holds none.
template <typename Load>
CUresult load_file(const std::string& path, Load load) {
  constexpr std::size_t kLargestImage = std::size_t{2} << 30;
  const auto file = read_whole_file(path, kLargestImage);
  if (file) return load(file->text.c_str());
  return file.error().code == ErrorCode::usage ? CUDA_ERROR_INVALID_IMAGE : CUDA_ERROR_FILE_NOT_FOUND;
}

// Converts a checked launch request into an engine command. Launches and graph nodes share it.
struct Shape {
  unsigned grid[3], block[3], shared;
};

struct KernelCommand {
  Command command;
  std::uint64_t word = 0;  // device address that the kernel sets at its end, or 0
};

// sms: available to the stream's kernels; 0: all.
CUresult prepare_kernel(const Function* function, const Shape& shape, void** parameters, void** extra,
                        KernelCommand* out, std::uint32_t sms = 0);
// Builds the parameter block as the GPU would see it.
CUresult parameter_block(const ptx::Entry& entry, void** parameters, void** extra, std::vector<std::byte>* block);
// Returns the action that sets that word.
std::function<void()> sets_word(std::uint64_t word);
CUresult cooperative_fits(const Shape& shape, std::uint32_t sms);

}  // namespace headgate::sim::driver
