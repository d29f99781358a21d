#include "e2e/limiter/limiter_compute_contexts.hpp"

#include <vector>

#include "e2e/limiter/limiter_compute.hpp"
#include "support/stalled.hpp"

namespace headgate::e2e {

// Splits the GPU into two green contexts of its primary context.
static std::vector<CUgreenCtx> halves() {
  alignas(8) std::byte all[144], parts[2][144];  // CUdevResource
  unsigned groups = 2;
  ok("cuDeviceGetDevResource", found<CUresult(CUdevice, void*, unsigned)>("cuDeviceGetDevResource")(0, all, 1));
  ok("cuDevSmResourceSplitByCount", found<CUresult(void*, unsigned*, const void*, void*, unsigned, unsigned)>(
                                        "cuDevSmResourceSplitByCount")(parts, &groups, all, nullptr, 0, 8));
  std::vector<CUgreenCtx> made(groups);
  for (unsigned i = 0; i < groups; ++i) {
    CUdevResourceDesc description = nullptr;
    ok("cuDevResourceGenerateDesc", found<CUresult(CUdevResourceDesc*, const void*, unsigned)>(
                                        "cuDevResourceGenerateDesc")(&description, parts[i], 1));
    OK(cuGreenCtxCreate, &made[i], description, 0, 1);
  }
  return made;
}

int green(int count) {
  const Gpu gpu(true);
  std::vector<CUgreenCtx> contexts = halves();
  std::vector<CUstream> streams;
  std::vector<CUcontext> views;
  for (const CUgreenCtx context : contexts) {
    CUstream stream = nullptr;
    CUcontext view = nullptr;
    ok("cuGreenCtxStreamCreate",
       found<CUresult(CUstream*, CUgreenCtx, unsigned, int)>("cuGreenCtxStreamCreate")(&stream, context, 1, 0));
    OK(cuCtxFromGreenCtx, &view, context);
    streams.push_back(stream);
    views.push_back(view);
  }
  for (int i = 0; i < count; ++i) {
    const auto half = static_cast<std::size_t>(i % 2);
    if (i % 4 < 2) OK(cuCtxSetCurrent, views[half]);
    launch(gpu.us, 500, i % 4 < 2 ? nullptr : streams[half], 1000);
  }
  OK(cuCtxSynchronize);
  say_launched();
  wait_for_stdin();
  for (const CUgreenCtx context : contexts) OK(cuGreenCtxDestroy, context);
  OK(cuCtxSetCurrent, gpu.context);
  launch(gpu.us, 10, nullptr);
  OK(cuCtxSynchronize);
  return 0;
}

// A default stream handle means another stream once another context is current.
int two_contexts(int rounds) {
  Gpu first;
  for (int i = 0; i < 30; ++i) launch(first.us, 250, nullptr);
  Gpu second;
  for (int i = 0; i < 30; ++i) launch(second.us, 250, nullptr);
  for (int i = 0; i < rounds; ++i) {
    OK(cuCtxPushCurrent_v2, first.context);
    for (int k = 0; k < 5; ++k) launch(first.us, 250, nullptr);
    CUcontext popped = nullptr;
    OK(cuCtxPopCurrent_v2, &popped);
    for (int k = 0; k < 5; ++k) launch(second.us, 250, nullptr);
    if (i % 16 == 0) OK(cuCtxSynchronize);
  }
  OK(cuCtxSynchronize);
  OK(cuCtxSetCurrent, first.context);
  OK(cuCtxSynchronize);
  say_launched();
  wait_for_stdin();
  return 0;
}

int wrong_context(int count) {
  const Gpu first;
  const CUstream stream = new_stream();
  const Gpu second;
  for (int i = 0; i < count; ++i) launch(first.us, 200, stream);
  OK(cuStreamSynchronize, stream);
  say_launched();
  wait_for_stdin();
  return 0;
}

int together(int count) {
  const Gpu first(false, 0);
  const CUstream stream = new_stream();
  const Gpu second(false, 1);
  const CUstream other = new_stream();
  unsigned us = 200;
  void* parameters[] = {&us};
  CUDA_LAUNCH_PARAMS list[] = {{first.us, 1, 1, 1, 32, 1, 1, 0, stream, parameters},
                               {second.us, 1, 1, 1, 32, 1, 1, 0, other, parameters}};
  for (int i = 0; i < count; ++i) OK(cuLaunchCooperativeKernelMultiDevice, list, 2, 0);
  OK(cuStreamSynchronize, stream);
  OK(cuStreamSynchronize, other);
  say_launched();
  wait_for_stdin();
  return 0;
}

int contexts(int count, int rounds) {
  std::vector<Gpu> all;
  for (int i = 0; i < count; ++i) all.emplace_back();
  for (int round = 0; round < rounds; ++round)
    for (const Gpu& gpu : all) {
      OK(cuCtxSetCurrent, gpu.context);
      launch(gpu.us, 500, nullptr);
      OK(cuCtxSynchronize);
    }
  say_launched();
  wait_for_stdin();
  return 0;
}

}  // namespace headgate::e2e
