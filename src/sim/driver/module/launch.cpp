// Launches, host functions, callbacks.
#include <algorithm>
#include <cstring>

#include "sim/driver/context/context_growth.hpp"
#include "sim/driver/context/green_context.hpp"
#include "sim/driver/graph/capture.hpp"
#include "sim/driver/memory/memory.hpp"
#include "sim/driver/module/module.hpp"
#include "sim/driver/stream/payload.hpp"
#include "sim/kernel_faults.hpp"

namespace headgate::sim::driver {
namespace {

// cuda.h: CU_LAUNCH_PARAM_END, _BUFFER_POINTER, _BUFFER_SIZE of `extra`.
bool packed_parameters(void** extra, const std::byte** data, std::size_t* bytes) {
  for (; extra && extra[0]; extra += 2) {
    if (extra[0] == reinterpret_cast<void*>(1)) *data = static_cast<const std::byte*>(extra[1]);
    else if (extra[0] == reinterpret_cast<void*>(2)) *bytes = *static_cast<std::size_t*>(extra[1]);
    else return false;
  }
  return *data != nullptr;
}

CUresult shape_fits(const Shape& shape, const Function& function, const Profile& profile) {
  for (int i = 0; i < 3; ++i) {
    if (shape.grid[i] == 0 || shape.block[i] == 0) return CUDA_ERROR_INVALID_VALUE;
  }
  const std::uint64_t threads = std::uint64_t{shape.block[0]} * shape.block[1] * shape.block[2];
  if (shape.grid[0] > 2147483647u || shape.grid[1] > 65535 || shape.grid[2] > 65535) return CUDA_ERROR_INVALID_VALUE;
  if (shape.block[0] > 1024 || shape.block[1] > 1024 || shape.block[2] > 64 ||
      threads > profile.max_threads_per_block) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::uint64_t shared =
      std::max<std::uint64_t>(profile.shared_bytes_per_block, static_cast<unsigned>(function.dynamic_shared_limit));
  if (shape.shared > shared) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

// A kernel that accesses memory outside its context: it starts and does nothing else.
void make_illegal(Command* command) {
  command->wait_flag = command->set_flag = kNone;
  command->amount = 0;
  command->detail |= fault_detail(kErrorIllegalAddress);
}

// Reads the flags of spin and flag kernels. `word`: the device address that the kernel sets at its end, or 0.
CUresult flags_of(const ptx::Entry& entry, std::span<const std::byte> block, Command* command, std::uint64_t* word) {
  bool in_memory = false;
  if (entry.behaviour.wait_parameter) {
    const auto address = ptx::address_parameter(entry, *entry.behaviour.wait_parameter, block);
    if (!address) return CUDA_ERROR_INVALID_VALUE;
    command->wait_flag = flag_of(*address, &in_memory);
    if (in_memory && !is_device_address(*address, 4)) make_illegal(command);
    if (command->wait_flag == kNone) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  }
  if (entry.behaviour.set_parameter) {
    const auto address = ptx::address_parameter(entry, *entry.behaviour.set_parameter, block);
    if (!address) return CUDA_ERROR_INVALID_VALUE;
    command->set_flag = flag_of(*address, &in_memory);
    if (command->set_flag == kNone) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    if (in_memory && !is_device_address(*address, 4)) make_illegal(command);
    else if (in_memory) *word = *address;
  }
  return CUDA_SUCCESS;
}

const CUlaunchAttribute* find_attribute(const CUlaunchConfig* config, CUlaunchAttributeID id) {
  for (unsigned i = 0; config != nullptr && i < config->numAttrs; ++i) {
    if (config->attrs[i].id == id) return &config->attrs[i];
  }
  return nullptr;
}

// `config`: the attributes of a cuLaunchKernelEx call.
CUresult launch(CUfunction handle, const Shape& shape, CUstream stream_handle, bool per_thread, void** parameters,
                void** extra, const CUlaunchConfig* config = nullptr) {
  SIM_GET(Stream, stream, stream_of(stream_handle, per_thread, &stream));
  SIM_GET(Function, function, function_in(handle, stream->context, &function));
  if (function->module->context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
  const CUlaunchAttribute* together = find_attribute(config, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
  if (together != nullptr && together->value.cooperative != 0) SIM_TRY(cooperative_fits(shape, sms_of(stream)));
  if (is_capturing(stream)) return capture_kernel(stream, function, shape, parameters, extra, config);
  KernelCommand kernel;
  SIM_TRY(prepare_kernel(function, shape, parameters, extra, &kernel, sms_of(stream)));
  SIM_TRY(make_ready(function));
  const CUlaunchAttribute* early = find_attribute(config, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  if (early != nullptr && early->value.programmaticStreamSerializationAllowed != 0)
    kernel.command.detail |= kOverlapsPredecessor;
  count(counters(stream->context).launches);
  const std::lock_guard guard(stream->context->lock);
  std::uint64_t number = 0;
  SIM_TRY(submit_locked(stream, kernel.command, &number));
  if (kernel.word != 0) add_payload(stream, number, sets_word(kernel.word));
  return CUDA_SUCCESS;
}

CUresult launch_ex(const CUlaunchConfig* config, CUfunction function, bool per_thread, void** parameters,
                   void** extra) {
  if (!config || (config->numAttrs && !config->attrs)) return CUDA_ERROR_INVALID_VALUE;
  const Shape shape{{config->gridDimX, config->gridDimY, config->gridDimZ},
                    {config->blockDimX, config->blockDimY, config->blockDimZ},
                    config->sharedMemBytes};
  return launch(function, shape, config->hStream, per_thread, parameters, extra, config);
}

CUresult cooperative(CUfunction handle, const Shape& shape, CUstream stream, bool per_thread, void** parameters) {
  CUlaunchAttribute together{};
  together.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  together.value.cooperative = 1;
  CUlaunchConfig config{};
  config.attrs = &together;
  config.numAttrs = 1;
  return launch(handle, shape, stream, per_thread, parameters, nullptr, &config);
}

CUresult host_function(CUstream handle, bool per_thread, CUhostFn function, void* data) {
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Stream, stream, stream_of(handle, per_thread, &stream));
  if (is_capturing(stream)) return capture_work(stream, NodeType::host, HostNodeParams{function, data});
  return submit_host_function(stream, unless_failed([function, data] { function(data); }));
}

CUresult callback(CUstream handle, bool per_thread, CUstreamCallback function, void* data, unsigned flags) {
  if (!function || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Stream, stream, stream_of(handle, per_thread, &stream));
  return submit_host_function(stream, [function, data, handle](CUresult status) { function(handle, status, data); });
}

}  // namespace

CUresult parameter_block(const ptx::Entry& entry, void** parameters, void** extra, std::vector<std::byte>* block) {
  block->assign(entry.parameter_bytes, std::byte{0});
  if (parameters) {
    for (std::size_t i = 0; i < entry.parameters.size(); ++i) {
      if (!parameters[i]) return CUDA_ERROR_INVALID_VALUE;
      std::memcpy(block->data() + entry.parameters[i].offset_bytes, parameters[i], entry.parameters[i].size_bytes);
    }
    return CUDA_SUCCESS;
  }
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  if (!packed_parameters(extra, &data, &bytes)) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(block->data(), data, std::min(bytes, block->size()));
  return CUDA_SUCCESS;
}

CUresult prepare_kernel(const Function* function, const Shape& shape, void** parameters, void** extra,
                        KernelCommand* out, std::uint32_t sms) {
  const Profile& profile = library().profile();
  SIM_TRY(shape_fits(shape, *function, profile));
  const ptx::Entry& entry = *function->entry;
  if (!entry.parameters.empty() && !parameters && !extra) return CUDA_ERROR_INVALID_VALUE;
  const ptx::Behaviour& behaviour = entry.behaviour;
  const std::uint64_t blocks = std::uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];

  Command& command = out->command;
  command.sms = sms_needed(profile, blocks);
  if (sms != 0) command.sms = std::min(command.sms, sms);
  command.detail = fault_detail(behaviour.fault_error);
  if (behaviour.duration_ns) command.amount = *behaviour.duration_ns;
  if (behaviour.duration_parameter || behaviour.wait_parameter || behaviour.set_parameter) {
    std::vector<std::byte> block;
    SIM_TRY(parameter_block(entry, parameters, extra, &block));
    SIM_TRY(flags_of(entry, block, &command, &out->word));
    if (behaviour.duration_parameter) command.amount = ptx::duration_ns(entry, block).value_or(0);
  } else if (!behaviour.duration_ns) {
    command.amount =
        wave_ns(profile, blocks, shape.block[0] * shape.block[1] * shape.block[2], sms != 0 ? sms : profile.sm_count);
  }
  return CUDA_SUCCESS;
}

std::function<void()> sets_word(std::uint64_t word) {
  return [word] {
    const std::uint32_t one = 1;
    std::memcpy(reinterpret_cast<void*>(word), &one, sizeof one);
  };
}

CUresult cooperative_fits(const Shape& shape, std::uint32_t sms) {
  const Profile& p = library().profile();
  const std::uint64_t threads =
      std::max<std::uint64_t>(1, std::uint64_t{shape.block[0]} * shape.block[1] * shape.block[2]);
  const std::uint64_t blocks = std::uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];
  return blocks > sms * std::min<std::uint64_t>(p.max_blocks_per_sm, p.max_threads_per_sm / threads)
             ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
             : CUDA_SUCCESS;
}

SIM_CALL_PTSZ(cuLaunchKernel,
              (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
               unsigned shared, CUstream stream, void** parameters, void** extra),
              launch(f, {{gx, gy, gz}, {bx, by, bz}, shared}, stream, per_thread, parameters, extra))
SIM_CALL_PTSZ(cuLaunchKernelEx, (const CUlaunchConfig* config, CUfunction f, void** parameters, void** extra),
              launch_ex(config, f, per_thread, parameters, extra))
SIM_CALL_PTSZ(cuLaunchCooperativeKernel,
              (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
               unsigned shared, CUstream stream, void** parameters),
              cooperative(f, {{gx, gy, gz}, {bx, by, bz}, shared}, stream, per_thread, parameters))
SIM_API CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS* list, unsigned devices, unsigned flags) {
  SIM_ENTER(cuLaunchCooperativeKernelMultiDevice);
  if (!list || devices == 0 || flags > 3) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < devices; ++i) {
    const CUDA_LAUNCH_PARAMS& one = list[i];
    if (reinterpret_cast<std::uintptr_t>(one.hStream) <= 2) return CUDA_ERROR_INVALID_HANDLE;
    const Shape shape{
        {one.gridDimX, one.gridDimY, one.gridDimZ}, {one.blockDimX, one.blockDimY, one.blockDimZ}, one.sharedMemBytes};
    SIM_TRY(cooperative(one.function, shape, one.hStream, false, one.kernelParams));
  }
  return CUDA_SUCCESS;
}
SIM_CALL_PTSZ(cuLaunchHostFunc, (CUstream stream, CUhostFn function, void* data),
              host_function(stream, per_thread, function, data))
SIM_CALL_PTSZ(cuStreamAddCallback, (CUstream stream, CUstreamCallback function, void* data, unsigned flags),
              callback(stream, per_thread, function, data, flags))

}  // namespace headgate::sim::driver
