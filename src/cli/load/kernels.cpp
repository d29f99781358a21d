#include "cli/load/kernels.hpp"

namespace headgate::load {

namespace {

// sm_52 and ISA 7.0: any driver of the last years compiles it for its card (checked with ptxas of CUDA 13.0 for sm_75..sm_100).
// The pragma stands in the entry; ptxas ignores the unknown word with a warning.
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

const char* kernels_ptx() { return kPtx; }

Result<BusyKernel> load_busy_kernel(const Driver& driver) {
  BusyKernel kernel;
  TRY(check("cuModuleLoadData", driver.cuModuleLoadData(&kernel.module, kPtx)));
  TRY(check("cuModuleGetFunction", driver.cuModuleGetFunction(&kernel.function, kernel.module, "headgate_busy")));
  return kernel;
}

}  // namespace headgate::load
