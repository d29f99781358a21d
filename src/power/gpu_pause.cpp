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
    for (const auto read : {Operation::get_power_limit, Operation::get_compute_mode, Operation::get_time_slice})
      if (const auto reading = value_of(read)) take_reading(read, *reading, saved);
    take_reading(Operation::get_persistence_mode, TRY(value_of(Operation::get_persistence_mode)), saved);
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
