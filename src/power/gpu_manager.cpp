#include "power/gpu_manager.hpp"

namespace headgate::power {

Result<void> GpuManager::reset_locked_clocks() {
  auto gpu = reset_gpu_locked_clocks();
  auto memory = reset_mem_locked_clocks();
  return gpu ? memory : gpu;
}

}  // namespace headgate::power
