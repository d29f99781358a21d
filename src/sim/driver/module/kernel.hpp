// Converts a checked launch request into an engine command. Launches and graph nodes share it.
#pragma once

#include <functional>

#include "sim/driver/module/module.hpp"

namespace headgate::sim::driver {

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
