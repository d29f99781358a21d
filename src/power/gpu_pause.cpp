#include "power/gpu_pause.hpp"

namespace headgate::power {
namespace {

const Caller kPauses{.text = "the release of a GPU", .uid = {}, .quiet = true};

}  // namespace

Result<Lease> pause_of(SettingsIo& io, const std::string& gpu) {
  Lease lease;
  lease.pauses = true;
  for (std::uint32_t index = 0; index < io.queues().count(); ++index) {
    if (gpu != "all" && io.index_of(gpu) != index) continue;
    const std::string& uuid = io.queues().gpu(index).identity().uuid;
    lease.wanted[uuid].persistence = false;
    Settings& saved = lease.saved[uuid];
    // Settings that the GPU lacks are not restored.
    const auto value_of = [&](Operation operation) { return io.command(index, {.operation = operation}, kPauses); };
    if (const auto limit = value_of(Operation::get_power_limit))
      saved.power_limit_mw = static_cast<std::uint32_t>(limit->value);
    if (const auto mode = value_of(Operation::get_compute_mode))
      saved.compute_mode = static_cast<std::uint32_t>(mode->value);
    if (const auto length = value_of(Operation::get_time_slice))
      saved.time_slice = static_cast<std::uint32_t>(length->value);
    saved.persistence = TRY(value_of(Operation::get_persistence_mode)).value != 0;
    const ClockRange gpu_clocks = io.queues().locked_clocks(index, Operation::set_gpu_locked_clocks);
    const ClockRange mem_clocks = io.queues().locked_clocks(index, Operation::set_mem_locked_clocks);
    if (gpu_clocks.max_mhz != 0) saved.gpu_clocks = gpu_clocks;
    if (mem_clocks.max_mhz != 0) saved.mem_clocks = mem_clocks;
  }
  if (lease.wanted.empty())
    return fail(ErrorCode::not_found, "there is no GPU '" + gpu + "'", "GET /v1/gpus lists them");
  return lease;
}

}  // namespace headgate::power
