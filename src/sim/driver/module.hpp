// Modules, libraries and functions: PTX text, parsed.
#pragma once

#include <deque>
#include <vector>

#include "sim/driver/library.hpp"
#include "sim/ptx.hpp"

namespace headgate::sim::driver {

struct Module;

struct Function {
  std::atomic<std::uint32_t> word{0};
  Module* module = nullptr;
  const ptx::Entry* entry = nullptr;
  int dynamic_shared_limit = 0;
};

struct Module {
  std::atomic<std::uint32_t> word{0};
  Context* context = nullptr;
  ptx::Module image;
  std::deque<Function> functions;      // one an entry
  std::vector<std::uint64_t> globals;  // addresses, as image.globals
};

// INVALID_HANDLE unless it is a function of that context.
CUresult function_of(CUfunction handle, Function** out);
void forget_modules(Context* context);

}  // namespace headgate::sim::driver
