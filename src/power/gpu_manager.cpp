#include "power/gpu_manager.hpp"

namespace headgate::power {

Result<void> GpuManager::reset_locked_clocks() {
  auto gpu = reset_gpu_locked_clocks();
  auto memory = reset_mem_locked_clocks();
  return gpu ? memory : gpu;
}

Result<void> GpuManager::set_time_slice(std::uint32_t) {
  return fail(ErrorCode::unsupported, "time slice: there is no tool that sets it");
}
Result<std::uint32_t> GpuManager::time_slice() {
  return fail(ErrorCode::unsupported, "time slice: there is no tool that reads it");
}

}  // namespace headgate::power
