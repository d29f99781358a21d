// A program that uses GPU time, one subcommand per pattern; prints one line per fact. Knows nothing of the limiter.
//
// busy US STREAMS COUNT END        COUNT kernels in turn on STREAMS streams, then END: sync, exit, or wait for stdin
// batches US SIZE COUNT [STREAMS [wait]]
//                                  COUNT times: SIZE kernels, in turn on STREAMS, and a synchronise
// forever US THREADS BLOCKS        prints "running" and launches until it is killed or stdin closes
// fork COUNT                       forks a child while another thread launches
// churn WHAT COUNT                 WHAT: streams, contexts, primary, reset, retained, modules
// roads WHICH COUNT                COUNT launches in one way, or (-N) in each of the first N ways, 100 ms apart
// clock                            the program's events around kernels of known length
// answers                          results of queries while a kernel runs, and after
// two-contexts COUNT               the same stream handle in two contexts, in turn
// wrong-context COUNT              launches to a stream while another context is current
// stress THREADS COUNT             threads make, use, share and destroy streams in two contexts; another forks
// together COUNT                   one kernel on two GPUs at once
// many-streams STREAMS             many streams, used one after the other, twice
// spinning                         a kernel spins; a line from stdin launches what it waits for, then some more
// queued WHAT COUNT                COUNT launches, timed launches or copies behind a kernel that waits for all;
//                                  "value" and "host": timed ones behind a wait for a value, or a host function
// moving US                        prints "running", then launches, allocates and frees until stdin closes
// contexts CONTEXTS COUNT          COUNT kernels in each of CONTEXTS contexts, in turn
// copies COUNT BYTES STREAMS       COUNT copies to the GPU, in turn on STREAMS; 0: synchronous. Prints time per call
// threadless                       the result of a launch in a process that cannot make any more threads
// green COUNT                      launches in turn in two green contexts, on their streams and default streams
// overlap US                       two threads, each with one kernel on its default stream
// per-thread COUNT                 threads that leave work on their default stream and go to sleep
#include <dirent.h>
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <iterator>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "e2e/limiter/limiter_compute.hpp"
#include "e2e/limiter/limiter_compute_contexts.hpp"
#include "support/stalled.hpp"

using namespace headgate::e2e;

namespace {

constexpr unsigned kDeadlineSeconds = 60;  // then SIGALRM: a hang fails the test

int busy(unsigned us, int streams, int count, const std::string& end) {
  const Gpu gpu;
  std::vector<CUstream> all(static_cast<std::size_t>(streams));
  for (CUstream& stream : all) stream = new_stream();
  for (int i = 0; i < count; ++i) launch(gpu.us, us, all[static_cast<std::size_t>(i % streams)]);
  if (end == "sync" || end == "wait") OK(cuCtxSynchronize);
  say_launched();
  if (end == "wait") wait_for_stdin();
  return 0;
}

void storm_thread(const Gpu& gpu, unsigned us, int count, unsigned blocks = 1) {
  OK(cuCtxSetCurrent, gpu.context);
  const CUstream stream = new_stream();
  for (int i = 0; i < count && !stdin_closed; ++i) launch(gpu.us, us, stream, blocks);
  OK(cuStreamSynchronize, stream);
}

int batches(unsigned us, int size, int count, std::size_t streams, bool wait) {
  const Gpu gpu;
  std::vector<CUstream> all(streams);
  for (CUstream& stream : all) stream = new_stream();
  for (int i = 0; i < count; ++i) {
    for (int k = 0; k < size; ++k) launch(gpu.us, us, all[static_cast<std::size_t>(k) % streams]);
    OK(cuCtxSynchronize);
  }
  say_launched();
  if (wait) wait_for_stdin();
  return 0;
}

int forever(unsigned us, int threads, unsigned blocks) {
  const Gpu gpu;
  launch(gpu.us, us, nullptr);
  OK(cuCtxSynchronize);
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) all.emplace_back([&] { storm_thread(gpu, us, 1 << 30, blocks); });
  say("running");
  wait_for_stdin();
  for (std::thread& thread : all) thread.join();
  return 0;
}

// The child first uses nothing of the driver, then something. It ends when stdin closes, like its parent.
int forked(int count) {
  const Gpu gpu;
  std::thread worker([&] { storm_thread(gpu, 200, count); });
  storm_thread(gpu, 200, 50);
  const pid_t child = ::fork();
  if (child == 0) {
    say("child");
    int devices = 0;
    std::printf("child asks: %u\n", static_cast<unsigned>(CALL(cuDeviceGetCount)(&devices)));
    unsigned us = 200;
    void* parameters[] = {&us};
    std::printf("child launches: %u\n", static_cast<unsigned>(CALL(cuLaunchKernel)(gpu.us, 1, 1, 1, 32, 1, 1, 0,
                                                                                   nullptr, parameters, nullptr)));
    std::fflush(stdout);
    wait_for_stdin();
    std::exit(0);
  }
  storm_thread(gpu, 200, count);
  worker.join();
  OK(cuCtxSynchronize);
  wait_for_stdin();
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

// Short kernels, so that brackets are open and unsettled when their stream or context is destroyed.
int churn(const std::string& what, int count) {
  OK(cuInit, 0);
  const bool contexts = what == "contexts", primary = what == "primary" || what == "reset";
  Gpu gpu(primary || what == "retained");
  const CUstream kept = contexts || primary ? nullptr : new_stream();
  for (int i = 0; i < count; ++i) {
    if (what == "streams") {
      const CUstream stream = new_stream();
      for (int k = 0; k < 3; ++k) launch(gpu.us, 20, stream);
      OK(cuStreamDestroy_v2, stream);
    } else if (what == "modules") {
      launch(gpu.us, i % 2 == 0 ? 20 : 400, kept);
      OK(cuModuleUnload, gpu.module);
      gpu.load();
    } else if (what == "retained") {
      CUcontext again = nullptr;
      OK(cuDevicePrimaryCtxRetain, &again, 0);
      for (int k = 0; k < 3; ++k) launch(gpu.us, 20, kept);
      OK(cuDevicePrimaryCtxRelease_v2, 0);
    } else {
      const CUstream stream = new_stream();
      for (int k = 0; k < 3; ++k) launch(gpu.us, 20, stream);
      launch(gpu.us, 20, nullptr);
      if (contexts) OK(cuCtxDestroy_v2, gpu.context);
      else if (what == "primary") OK(cuDevicePrimaryCtxRelease_v2, 0);
      else OK(cuDevicePrimaryCtxReset_v2, 0);
      gpu = Gpu(primary);
    }
  }
  OK(cuCtxSynchronize);
  say("churned");
  for (int i = 0; i < 400; ++i) launch(gpu.also_us, 200, kept);
  OK(cuCtxSynchronize);
  say_launched();
  wait_for_stdin();
  return 0;
}

int roads(int which, int count) {
  const Gpu gpu;
  const CUstream stream = new_stream();
  unsigned us = 100;
  void* parameters[] = {&us};
  CUlaunchAttribute overlap{};
  overlap.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  overlap.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig plain{};
  plain.gridDimX = plain.gridDimY = plain.gridDimZ = 1;
  plain.blockDimX = 32, plain.blockDimY = plain.blockDimZ = 1;
  plain.hStream = stream;
  CUlaunchConfig paired = plain;
  paired.attrs = &overlap;
  paired.numAttrs = 1;
  CUlaunchConfig nowhere = plain;
  nowhere.hStream = nullptr;
  std::atomic<int> hosted{0};
  const auto host = [](void* counter) { static_cast<std::atomic<int>*>(counter)->fetch_add(1); };
  const auto kernel = [&](CUstream on) { OK(cuLaunchKernel, gpu.us, 1, 1, 1, 32, 1, 1, 0, on, parameters, nullptr); };
  const std::function<void()> calls[] = {
      [&] { kernel(stream); },
      [&] { kernel(nullptr); },
      [&] { OK(cuLaunchKernel_ptsz, gpu.us, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr); },
      [&] { kernel(stream_per_thread()); },
      [&] { kernel(stream_legacy()); },
      [&] { OK(cuLaunchKernelEx, &plain, gpu.us, parameters, nullptr); },
      [&] { OK(cuLaunchKernelEx, &paired, gpu.us, parameters, nullptr); },
      [&] { OK(cuLaunchKernelEx_ptsz, &nowhere, gpu.us, parameters, nullptr); },
      [&] { OK(cuLaunchCooperativeKernel, gpu.us, 1, 1, 1, 32, 1, 1, 0, stream, parameters); },
      [&] { OK(cuLaunchCooperativeKernel_ptsz, gpu.us, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters); },
      [&] {
        kernel(stream);
        OK(cuLaunchHostFunc, stream, host, &hosted);
      }};
  constexpr int kRoads = std::size(calls);
  for (int i = std::max(which, 0); i < (which < 0 ? std::min(-which, kRoads) : which + 1); ++i) {
    if (which < 0) ::usleep(100'000);  // the GPU is idle; this time must not be charged
    for (int k = 0; k < count; ++k) calls[i]();
  }
  OK(cuCtxSynchronize);
  std::printf("host functions %d\n", hosted.load());
  say_launched();
  wait_for_stdin();
  return 0;
}

// Everything is queued before the first kernel may run, so that the host's speed does not affect the results.
int clock_kernels() {
  const Gpu gpu;
  CUdeviceptr flag = 0;
  OK(cuMemAlloc_v2, &flag, 4);
  OK(cuMemsetD32_v2, flag, 0, 1);
  const CUstream stream = new_stream(), other = new_stream();
  for (int i = 0; i < 40; ++i) launch(gpu.us, 20, stream);
  OK(cuStreamSynchronize, stream);
  CUevent events[4];
  for (CUevent& event : events) OK(cuEventCreate, &event, 0);
  launch_flag(gpu.hold, flag, stream);
  OK(cuEventRecord, events[0], stream);
  for (int i = 0; i < 3; ++i) launch(gpu.us, 20, stream);
  OK(cuEventRecord, events[1], stream);
  launch(gpu.us, 20, stream);
  OK(cuEventRecord, events[2], stream);
  OK(cuEventRecord, events[3], stream);
  launch_flag(gpu.release, flag, other);
  OK(cuStreamSynchronize, stream);
  for (int i = 0; i < 3; ++i) {
    float ms = 0;
    OK(cuEventElapsedTime, &ms, events[i], events[i + 1]);
    std::printf("%.1f\n", static_cast<double>(ms) * 1000);
  }
  say("end");
  return 0;
}

int answers() {
  const Gpu gpu;
  CUdeviceptr flag = 0;
  OK(cuMemAlloc_v2, &flag, 4);
  OK(cuMemsetD32_v2, flag, 0, 1);
  CUstream blocking = nullptr;
  OK(cuStreamCreate, &blocking, 0);
  const CUstream stream = new_stream(), other = new_stream();
  CUevent event = nullptr;
  OK(cuEventCreate, &event, 0);
  const auto tell = [&](const char* when) {
    const unsigned s = CALL(cuStreamQuery)(stream), b = CALL(cuStreamQuery)(blocking), e = CALL(cuEventQuery)(event),
                   again = CALL(cuStreamQuery)(stream), legacy = CALL(cuStreamQuery)(nullptr);
    std::printf("%s: stream %u, blocking %u, event %u, stream again %u, legacy %u\n", when, s, b, e, again, legacy);
  };
  tell("fresh");
  for (int i = 0; i < 30; ++i) launch(gpu.us, 5, stream);  // kernel length known: brackets stay open
  OK(cuStreamSynchronize, stream);
  tell("after a synchronise");
  launch_flag(gpu.hold, flag, stream);
  OK(cuEventRecord, event, stream);
  tell("held");
  launch_flag(gpu.release, flag, other);
  OK(cuEventSynchronize, event);
  tell("released");
  for (int round = 0; round < 20; ++round) {
    launch(gpu.us, 5, blocking);
    OK(cuStreamSynchronize, nullptr);  // waits for the blocking stream too
    tell("through the legacy stream");
    launch(gpu.us, 5, blocking);
    OK(cuEventRecord, event, nullptr);  // records after it
    OK(cuEventSynchronize, event);
    tell("through an event of the legacy stream");
    launch(gpu.us, 5, stream);
    OK(cuEventRecord, event, stream);
    OK(cuStreamWaitEvent, other, event, 0);
    OK(cuStreamSynchronize, other);
    tell("through another stream");
  }
  return 0;
}

int stress(int threads, int count) {
  const Gpu first, second;
  OK(cuCtxSetCurrent, second.context);
  const CUstream shared = new_stream();
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      OK(cuCtxSetCurrent, second.context);
      for (int i = 0; i < count; ++i) {
        const CUstream own = new_stream();
        for (int k = 0; k < 4; ++k) launch(second.us, 20, own);
        launch(second.also_us, 20, shared);
        if ((i + t) % 3 == 0) OK(cuStreamSynchronize, own);
        OK(cuCtxPushCurrent_v2, first.context);
        for (int k = 0; k < 3; ++k) launch(first.us, 20, k == 0 ? stream_per_thread() : nullptr);
        CUcontext popped = nullptr;
        OK(cuCtxPopCurrent_v2, &popped);
        OK(cuStreamDestroy_v2, own);
      }
    });
  for (int i = 0; i < 10; ++i) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    ::waitpid(child, nullptr, 0);
  }
  for (std::thread& thread : all) thread.join();
  for (const Gpu* gpu : {&first, &second}) {
    OK(cuCtxSetCurrent, gpu->context);
    OK(cuCtxSynchronize);
  }
  say_launched();
  wait_for_stdin();
  return 0;
}

int many_streams(int count) {
  const Gpu gpu;
  std::vector<CUstream> all(static_cast<std::size_t>(count));
  for (CUstream& stream : all) stream = new_stream();
  for (int round = 0; round < 2; ++round)
    for (const CUstream stream : all) {
      launch(gpu.us, 100, stream);
      OK(cuStreamSynchronize, stream);
    }
  say_launched();
  wait_for_stdin();
  return 0;
}

int spinning() {
  const Gpu gpu;
  CUdeviceptr flag = 0;
  OK(cuMemAlloc_v2, &flag, 4);
  OK(cuMemsetD32_v2, flag, 0, 1);
  const CUstream stream = new_stream(), other = new_stream();
  launch(gpu.us, 20, stream);
  OK(cuStreamSynchronize, stream);
  launch_flag(gpu.hold, flag, stream);
  say("spinning");
  std::getchar();
  launch_flag(gpu.release, flag, other);
  OK(cuStreamSynchronize, stream);
  say("met");
  for (int i = 0; i < 20; ++i) launch(gpu.us, 20, stream);
  OK(cuStreamSynchronize, stream);
  say("end");
  return 0;
}

// Like a benchmark's blocking kernel: the thread that queues the work also starts it.
int queued(const std::string& kind, int count) {
  const Gpu gpu;
  CUdeviceptr flag = 0, to = 0;
  void* from = nullptr;
  OK(cuMemAlloc_v2, &flag, 4);
  OK(cuMemAlloc_v2, &to, 4096);
  OK(cuMemAllocHost_v2, &from, 4096);
  OK(cuMemsetD32_v2, flag, 0, 1);
  const CUstream stream = new_stream(), other = new_stream();
  CUevent event = nullptr;
  OK(cuEventCreate, &event, 0);
  for (int i = 0; i < 20; ++i) launch(gpu.us, 50, stream);
  OK(cuStreamSynchronize, stream);
  static std::atomic<bool> all_sent{false};
  constexpr auto kUntilQueued = [](void*) {
    while (!all_sent.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  if (kind == "value") OK(cuStreamWaitValue32_v2, stream, flag, 1, 0);
  else if (kind == "host") OK(cuLaunchHostFunc, stream, kUntilQueued, nullptr);
  else launch_flag(gpu.hold, flag, stream);
  for (int i = 0; i < count; ++i) {
    if (kind == "copies") OK(cuMemcpyHtoDAsync_v2, to, from, 4096, stream);
    else launch(gpu.us, 50, stream);
    if (kind == "timed" || kind == "value" || kind == "host") OK(cuEventRecord, event, stream);
  }
  all_sent.store(true);
  OK(cuMemsetD32Async, flag, 1, 1, other);
  OK(cuStreamSynchronize, stream);
  say("end");
  return 0;
}

int moving(unsigned us) {
  const Gpu gpu;
  launch(gpu.us, us, nullptr);
  OK(cuCtxSynchronize);
  std::thread launches([&] { storm_thread(gpu, us, 1 << 30); });
  std::thread memory([&] {
    OK(cuCtxSetCurrent, gpu.context);
    while (!stdin_closed) {
      CUdeviceptr at = 0;
      OK(cuMemAlloc_v2, &at, 1 << 20);
      ::usleep(3000);
      OK(cuMemFree_v2, at);
    }
  });
  say("running");
  wait_for_stdin();
  launches.join();
  memory.join();
  return 0;
}

int copy_to_gpu(int count, std::size_t bytes, int streams) {
  const Gpu gpu;
  std::vector<CUstream> all(static_cast<std::size_t>(streams));
  for (CUstream& stream : all) stream = new_stream();
  CUdeviceptr at = 0;
  void* from = nullptr;
  OK(cuMemAlloc_v2, &at, bytes);
  OK(cuMemAllocHost_v2, &from, bytes);
  const auto copy = CALL(cuMemcpyHtoDAsync_v2);
  const auto begun = std::chrono::steady_clock::now();
  OK(cuMemcpyHtoD_v2, at, from, bytes);
  for (int i = 0; i < count; ++i) {
    if (streams == 0) OK(cuMemcpyHtoD_v2, at, from, bytes);
    else ok("cuMemcpyHtoDAsync", copy(at, from, bytes, all[static_cast<std::size_t>(i % streams)]));
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begun;
  OK(cuCtxSynchronize);
  std::printf("%.0f\n", took.count() / count);
  std::fflush(stdout);
  wait_for_stdin();
  return 0;
}

// Limits the address space so that no thread's stack fits.
int threadless() {
  const Gpu gpu;
  rlimit before{};
  ::getrlimit(RLIMIT_AS, &before);
  long pages = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "r"); file != nullptr) {
    if (std::fscanf(file, "%ld", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  if (pages == 0) return std::printf("no /proc\n"), 5;
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(pages) * 4096 + (2 << 20);
  std::promise<void> over;
  const std::shared_future<void> ended = over.get_future().share();
  std::vector<std::thread> idle;
  idle.reserve(64);
  ::setrlimit(RLIMIT_AS, &tight);
  // The C library reuses the stack of a thread that has just ended: take all that is left.
  try {
    while (idle.size() < idle.capacity()) idle.emplace_back([ended] { ended.wait(); });
  } catch (const std::system_error&) {
  }
  unsigned us = 100;
  void* parameters[] = {&us};
  const auto answer = CALL(cuLaunchKernel)(gpu.us, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr);
  ::setrlimit(RLIMIT_AS, &before);
  over.set_value();
  for (std::thread& thread : idle) thread.join();
  std::printf("%u\n", static_cast<unsigned>(answer));
  OK(cuCtxSynchronize);
  return 0;
}

// Two threads, each with one kernel on its default stream, at the same time.
int overlap(unsigned us) {
  const Gpu gpu;
  std::atomic<int> ready{0};
  const auto one = [&] {
    OK(cuCtxSetCurrent, gpu.context);
    void* parameters[] = {&us};
    ++ready;
    while (ready != 2) ::usleep(100);
    OK(cuLaunchKernel_ptsz, gpu.us, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr);
    OK(cuStreamSynchronize_ptsz, nullptr);
  };
  std::thread first(one), second(one);
  first.join();
  second.join();
  return 0;
}

int per_thread(int threads) {
  const Gpu gpu;
  const auto short_work = [&](int count) {
    OK(cuCtxSetCurrent, gpu.context);
    for (int i = 0; i < count; ++i) launch(gpu.us, 20, stream_per_thread());
  };
  short_work(40);
  OK(cuCtxSynchronize);
  std::vector<std::thread> all;
  std::atomic<int> ready{0};
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&] {
      short_work(1);
      ++ready;
      while (!stdin_closed) ::usleep(1000);
    });
  while (ready != threads) ::usleep(1000);
  say("asleep");
  wait_for_stdin();
  for (std::thread& thread : all) thread.join();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  ::alarm(kDeadlineSeconds);
  const std::string what = argc > 1 ? argv[1] : "";
  const auto number = [&](int i) { return i < argc ? std::atoi(argv[i]) : 0; };
  if (what == "busy" && argc == 6) return busy(static_cast<unsigned>(number(2)), number(3), number(4), argv[5]);
  if (what == "green" && argc == 3) return green(number(2));
  if (what == "batches")
    return batches(static_cast<unsigned>(number(2)), number(3), number(4),
                   argc > 5 ? static_cast<std::size_t>(number(5)) : 1, argc > 6);
  if (what == "forever")
    return forever(static_cast<unsigned>(number(2)), number(3), static_cast<unsigned>(std::max(1, number(4))));
  if (what == "fork") return forked(number(2));
  if (what == "churn" && argc == 4) return churn(argv[2], number(3));
  if (what == "roads") return roads(number(2), number(3));
  if (what == "clock") return clock_kernels();
  if (what == "answers") return answers();
  if (what == "two-contexts") return two_contexts(number(2));
  if (what == "wrong-context") return wrong_context(number(2));
  if (what == "stress") return stress(number(2), number(3));
  if (what == "together") return together(number(2));
  if (what == "many-streams") return many_streams(number(2));
  if (what == "spinning") return spinning();
  if (what == "queued" && argc == 4) return queued(argv[2], number(3));
  if (what == "moving") return moving(static_cast<unsigned>(number(2)));
  if (what == "contexts") return contexts(number(2), number(3));
  if (what == "copies") return copy_to_gpu(number(2), static_cast<std::size_t>(number(3)), number(4));
  if (what == "threadless") return threadless();
  if (what == "overlap") return overlap(static_cast<unsigned>(number(2)));
  if (what == "per-thread") return per_thread(number(2));
  return std::fprintf(stderr, "limiter_compute: see the head of its source\n"), 2;
}
