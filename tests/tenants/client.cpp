#include "client.hpp"

#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace headgate::tenant {

const char* const kKernels = R"(.version 7.0
.target sm_70
.address_size 64

.visible .entry tenant_busy(
  .param .u64 mark,
  .param .u32 us
)
{
  .pragma "headgate.sim.us param1";
  .reg .pred %p<2>;
  .reg .b64 %rd<8>;
  ld.param.u32 %rd1, [us];
  mul.lo.u64 %rd1, %rd1, 1000;
  mov.u64 %rd2, %globaltimer;
AGAIN:
  mov.u64 %rd3, %globaltimer;
  sub.u64 %rd4, %rd3, %rd2;
  setp.lt.u64 %p1, %rd4, %rd1;
  @%p1 bra AGAIN;
  ld.param.u64 %rd5, [mark];
  cvta.to.global.u64 %rd6, %rd5;
  st.global.u32 [%rd6], 1;
  ret;
}

.visible .entry tenant_set(
  .param .u64 flag
)
{
  .pragma "headgate.sim.us 1";
  .pragma "headgate.sim.set param0";
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [flag];
  cvta.to.global.u64 %rd2, %rd1;
  membar.sys;
  st.volatile.global.u32 [%rd2], 1;
  ret;
}

.visible .entry tenant_wait(
  .param .u64 flag
)
{
  .pragma "headgate.sim.us 1";
  .pragma "headgate.sim.wait param0";
  .reg .pred %p<2>;
  .reg .b32 %r<2>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [flag];
  cvta.to.global.u64 %rd2, %rd1;
AGAIN:
  ld.volatile.global.u32 %r1, [%rd2];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra AGAIN;
  ret;
}
)";

namespace {

// Returns true if `call` succeeded; remembers the first failure.
bool went_well(Client& client, const char* call, abi::CUresult result) {
  if (client.ok() && result != abi::CUDA_SUCCESS) {
    client.failed_call = call;
    client.result = result;
  }
  return client.ok();
}

void load_kernels(Client& client) {
  const Driver& driver = client.driver;
  if (!went_well(client, "cuModuleLoadData", driver.cuModuleLoadData(&client.module, kKernels))) return;
  went_well(client, "cuModuleGetFunction", driver.cuModuleGetFunction(&client.busy, client.module, "tenant_busy"));
  went_well(client, "cuModuleGetFunction", driver.cuModuleGetFunction(&client.set, client.module, "tenant_set"));
  went_well(client, "cuModuleGetFunction", driver.cuModuleGetFunction(&client.wait, client.module, "tenant_wait"));
}

}  // namespace

abi::CUresult Client::launch(abi::CUfunction function, abi::CUstream stream, void** arguments, unsigned blocks) const {
  return driver.cuLaunchKernel(function, blocks, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
}

Client start(const Options& options, int device_offset, bool with_module) {
  Client client;
  client.driver = reach_driver(options.text("--road", ""));
  const int ordinal = static_cast<int>(options.number("--device", 0, 63)) + device_offset;
  const Driver& driver = client.driver;
  if (!went_well(client, "cuInit", driver.cuInit(0))) return client;
  if (!went_well(client, "cuDeviceGet", driver.cuDeviceGet(&client.device, ordinal))) return client;
  if (!went_well(client, "cuDevicePrimaryCtxRetain", driver.cuDevicePrimaryCtxRetain(&client.context, client.device)))
    return client;
  if (!went_well(client, "cuCtxSetCurrent", driver.cuCtxSetCurrent(client.context))) return client;
  if (with_module) load_kernels(client);
  return client;
}

int report_failure(const Client& client) {
  std::printf("{\"ok\":false,\"call\":\"%s\",\"result\":\"%s\"}\n", client.failed_call.c_str(),
              result_name(client.result).c_str());
  return 1;
}

std::uint64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

void hold(std::uint64_t ms) {
  if (ms != 0) {
    timespec left{static_cast<time_t>(ms / 1000), static_cast<long>(ms % 1000 * 1'000'000)};
    while (::nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
    return;
  }
  char byte = 0;
  for (ssize_t got = 1; got > 0 || (got < 0 && errno == EINTR);) got = ::read(STDIN_FILENO, &byte, 1);
}

}  // namespace headgate::tenant
