#include "cli/load/kernels.hpp"

namespace headgate::load {

namespace {

// Entry "headgate_busy(.param .f64 microseconds)": one thread reads %globaltimer until so much time has passed. On the
// simulator the pragma names the same parameter; it stands in the entry, and ptxas ignores the unknown word with a warning.
// sm_52 and ISA 7.0: any driver of the last years compiles it for its card (checked with ptxas of CUDA 13.0 for sm_75..sm_100).
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
)";

}  // namespace

Result<BusyKernel> load_busy_kernel(const Driver& driver) {
  BusyKernel kernel;
  TRY(check("cuModuleLoadData", driver.cuModuleLoadData(&kernel.module, kPtx)));
  TRY(check("cuModuleGetFunction", driver.cuModuleGetFunction(&kernel.function, kernel.module, "headgate_busy")));
  return kernel;
}

CUresult launch_busy_by(LaunchCall call, bool per_thread, const Driver& driver, const BusyKernel& kernel,
                        double microseconds, CUstream stream, unsigned blocks) {
  void* parameters[] = {&microseconds};
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
