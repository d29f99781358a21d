#include "load/kernels.hpp"

#include <cstdint>

namespace headgate::load {

namespace {

// Entry "headgate_busy(.param .f64 microseconds)": one thread polls %globaltimer until the time has passed. The pragma
// names the same parameter for the simulator; it is inside the entry, where ptxas ignores the unknown word with a
// warning. Entry "headgate_work(.param .f64 microseconds, .param .u64 rounds)" instead counts rounds through shared
// memory: unlike the clock, it makes no progress while another context has the GPU. Accesses are volatile, or ptxas
// would drop the loop. sm_52 and ISA 7.0: any recent driver compiles it for its GPU (checked with CUDA 13.0's ptxas for
// sm_75..sm_100).
constexpr char kPtx[] = R"(.version 7.0
.target sm_52
.address_size 64

.visible .entry headgate_busy(.param .f64 headgate_busy_microseconds)
{
  .pragma "headgate.sim.us param0";
  .reg .pred %p<2>;
  .reg .f64 %fd<3>;
  .reg .b64 %rd<5>;
  ld.param.f64 %fd1, [headgate_busy_microseconds];
  mul.f64 %fd2, %fd1, 0d408F400000000000;
  cvt.rzi.u64.f64 %rd1, %fd2;
  mov.u64 %rd2, %globaltimer;
again:
  mov.u64 %rd3, %globaltimer;
  sub.s64 %rd4, %rd3, %rd2;
  setp.lt.u64 %p1, %rd4, %rd1;
  @%p1 bra again;
  ret;
}

.visible .entry headgate_work(.param .f64 headgate_work_microseconds, .param .u64 headgate_work_rounds)
{
  .pragma "headgate.sim.us param0";
  .reg .pred %p<2>;
  .reg .b64 %rd<5>;
  .shared .align 8 .u64 headgate_work_count;
  ld.param.u64 %rd1, [headgate_work_rounds];
  mov.u64 %rd2, 0;
again:
  st.volatile.shared.u64 [headgate_work_count], %rd2;
  ld.volatile.shared.u64 %rd3, [headgate_work_count];
  add.s64 %rd2, %rd3, 1;
  setp.lt.u64 %p1, %rd2, %rd1;
  @%p1 bra again;
  ret;
}
)";

}  // namespace

Result<BusyKernel> load_busy_kernel(const Driver& driver, double rounds_per_us) {
  BusyKernel kernel;
  TRY(check("cuModuleLoadData", driver.cuModuleLoadData(&kernel.module, kPtx)));
  const char* const entry = rounds_per_us > 0 ? "headgate_work" : "headgate_busy";
  TRY(check("cuModuleGetFunction", driver.cuModuleGetFunction(&kernel.function, kernel.module, entry)));
  kernel.rounds_per_us = rounds_per_us;
  return kernel;
}

CUresult launch_busy_by(LaunchCall call, bool per_thread, const Driver& driver, const BusyKernel& kernel,
                        double microseconds, CUstream stream, unsigned blocks) {
  auto rounds = static_cast<std::uint64_t>(microseconds * kernel.rounds_per_us);
  void* parameters[] = {&microseconds, &rounds};  // the driver reads as many as the entry declares
  if (call == LaunchCall::plain || call == LaunchCall::cooperative) {
    if (call == LaunchCall::plain) {
      auto* const plain = per_thread ? driver.cuLaunchKernel_ptsz : driver.cuLaunchKernel;
      return plain == nullptr ? CUDA_ERROR_NOT_FOUND
                              : plain(kernel.function, blocks, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
    }
    auto* const together = per_thread ? driver.cuLaunchCooperativeKernel_ptsz : driver.cuLaunchCooperativeKernel;
    return together == nullptr ? CUDA_ERROR_NOT_FOUND
                               : together(kernel.function, blocks, 1, 1, 1, 1, 1, 0, stream, parameters);
  }
  CUlaunchAttribute overlap{};
  overlap.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  overlap.value.programmaticStreamSerializationAllowed = 1;
  const CUlaunchConfig config{.gridDimX = blocks,
                              .gridDimY = 1,
                              .gridDimZ = 1,
                              .blockDimX = 1,
                              .blockDimY = 1,
                              .blockDimZ = 1,
                              .sharedMemBytes = 0,
                              .hStream = stream,
                              .attrs = &overlap,
                              .numAttrs = call == LaunchCall::chain ? 1u : 0u};
  auto* const extended = per_thread ? driver.cuLaunchKernelEx_ptsz : driver.cuLaunchKernelEx;
  return extended == nullptr ? CUDA_ERROR_NOT_FOUND : extended(&config, kernel.function, parameters, nullptr);
}

}  // namespace headgate::load
