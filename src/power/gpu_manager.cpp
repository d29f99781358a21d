#include "power/gpu_manager.hpp"

namespace headgate::power {

Result<Reading> reset_each_clocks(GpuManager& gpu) {
  const auto first = gpu.perform({.operation = Operation::reset_gpu_locked_clocks});
  const auto second = gpu.perform({.operation = Operation::reset_mem_locked_clocks});
  return first ? second : first;
}

}  // namespace headgate::power
