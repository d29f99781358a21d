// A cold process that times calls of the driver that it finds. The bench runs it with and without a preloaded library.
//
//   headgate-bench-cost start|launch|kinds|graph|alloc|pool|refuse|syscalls [bytes]      one line of JSON on stdout
//
// Launches come in batches of 256 with a pause after each: the queue is never full and a limit of 90 % never applies. A
// sample of "a launch" is a batch's time over 256. The wait that ends a batch (where a meter closes its bracket) is
// timed separately and included in the mean. Single launches are timed in separate batches, for the tail.
#include <dlfcn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cost/markers.hpp"
#include "load/driver.hpp"
#include "load/histogram.hpp"
#include "load/kernels.hpp"

namespace headgate::bench {
namespace {

using namespace load;

constexpr int kBatch = 256;
constexpr int kBatches = 2000;
constexpr int kPairs = 64;

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

void pause() {
  const timespec length{0, 200'000};
  ::nanosleep(&length, nullptr);
}

struct Samples {
  std::vector<double> ns;

  [[nodiscard]] double percentile(double part) {
    std::ranges::sort(ns);
    return ns[std::min(ns.size() - 1, static_cast<std::size_t>(part * static_cast<double>(ns.size())))];
  }
  [[nodiscard]] double mean() const {
    double sum = 0;
    for (const double each : ns) sum += each;
    return sum / static_cast<double>(ns.size());
  }
};

struct Counts {
  std::uint64_t other = 0, launches = 0;
};

// Returns zeros for a driver that does not count (the simulator, a card).
Counts driver_counts(const Driver& driver) {
  using count_fn = std::uint64_t();
  const auto other = reinterpret_cast<count_fn*>(::dlsym(driver.library, "headgate_nop_other_calls"));
  const auto launches = reinterpret_cast<count_fn*>(::dlsym(driver.library, "headgate_nop_launches"));
  return other == nullptr || launches == nullptr ? Counts{} : Counts{other(), launches()};
}

struct Ready {
  Driver driver;
  BusyKernel kernel;
  CUstream stream = nullptr;
  std::int64_t start_ns = 0;  // duration of cuInit and the first context
};

Result<Ready> start() {
  Ready ready;
  ready.driver = TRY(open_driver());
  const std::int64_t before = now_ns();
  TRY(check("cuInit", ready.driver.cuInit(0)));
  CUcontext context = nullptr;
  TRY(check("cuDevicePrimaryCtxRetain", ready.driver.cuDevicePrimaryCtxRetain(&context, 0)));
  TRY(check("cuCtxSetCurrent", ready.driver.cuCtxSetCurrent(context)));
  ready.start_ns = now_ns() - before;
  ready.kernel = TRY(load_busy_kernel(ready.driver));
  TRY(check("cuStreamCreate", ready.driver.cuStreamCreate(&ready.stream, CU_STREAM_NON_BLOCKING)));
  return ready;
}

Result<void> launch_batch(const Ready& ready, double us) {
  for (int i = 0; i < kBatch; ++i) {
    TRY(check("cuLaunchKernel", launch_busy(ready.driver, ready.kernel, us, ready.stream)));
  }
  return {};
}

Result<void> warm_up(const Ready& ready) {
  for (int i = 0; i < 50; ++i) {
    TRY(launch_batch(ready, 1));
    TRY(check("cuStreamSynchronize", ready.driver.cuStreamSynchronize(ready.stream)));
    pause();
  }
  return {};
}

// Times single launches. Reading the clock would take longer than a launch, so this uses x86's counter (elsewhere the
// clock). It needs no privilege: if the kernel forbids it (PR_SET_TSC), even glibc's loader fails before main().
// Reports how it was calibrated and the cost of two readings.
class Ticker {
 public:
  Ticker() {
    const std::int64_t from_ns = now_ns();
    const std::uint64_t from = read();
    while (now_ns() - from_ns < 20'000'000) {
    }
    per_ns_ = static_cast<double>(read() - from) / static_cast<double>(now_ns() - from_ns);
    Histogram pairs;
    for (int i = 0; i < 10'000; ++i) {
      const std::uint64_t first = read();
      pairs.add(ns(read() - first));
    }
    reading_ns_ = pairs.percentile_ns(0.5);
  }

  [[nodiscard]] static std::uint64_t read() {
#if defined(__x86_64__)
    return __rdtsc();
#else
    return static_cast<std::uint64_t>(now_ns());
#endif
  }
  [[nodiscard]] std::uint64_t ns(std::uint64_t ticks) const {
    return static_cast<std::uint64_t>(static_cast<double>(ticks) / per_ns_);
  }
  [[nodiscard]] double per_ns() const { return per_ns_; }
  [[nodiscard]] std::uint64_t reading_ns() const { return reading_ns_; }

 private:
  double per_ns_ = 1;
  std::uint64_t reading_ns_ = 0;
};

Result<void> measure_launches() {
  const Ready ready = TRY(start());
  TRY(warm_up(ready));
  const Ticker ticker;
  Samples launch, with_wait;
  const Counts before = driver_counts(ready.driver);
  for (int batch = 0; batch < kBatches; ++batch) {
    const std::int64_t t0 = now_ns();
    TRY(launch_batch(ready, 1));
    const std::int64_t t1 = now_ns();
    TRY(check("cuStreamSynchronize", ready.driver.cuStreamSynchronize(ready.stream)));
    const std::int64_t t2 = now_ns();
    launch.ns.push_back(static_cast<double>(t1 - t0) / kBatch);
    with_wait.ns.push_back(static_cast<double>(t2 - t0) / kBatch);
    pause();
  }
  const Counts after = driver_counts(ready.driver);
  Histogram single;
  for (int batch = 0; batch < kBatches / 4; ++batch) {
    for (int i = 0; i < kBatch; ++i) {
      const std::uint64_t from = Ticker::read();
      TRY(check("cuLaunchKernel", launch_busy(ready.driver, ready.kernel, 1, ready.stream)));
      single.add(ticker.ns(Ticker::read() - from));
    }
    TRY(check("cuStreamSynchronize", ready.driver.cuStreamSynchronize(ready.stream)));
    pause();
  }
  // The loop itself makes one synchronise call per batch, in every configuration.
  const double launches = static_cast<double>(after.launches - before.launches);
  const double extra = static_cast<double>(after.other - before.other) - kBatches;
  std::printf(
      "{\"launch_p50_ns\":%.3f,\"launch_mean_ns\":%.3f,\"with_wait_mean_ns\":%.3f,\"single_p99_ns\":%"
      "lu,\"single_max_ns\":%lu,\"reading_ns\":%lu,\"ticks_per_ns\":%.4f,\"driver_calls_per_launch\":%.6f}\n",
      launch.percentile(0.5), launch.mean(), with_wait.mean(), single.percentile_ns(0.99), single.max_ns(),
      ticker.reading_ns(), ticker.per_ns(), launches > 0 ? extra / launches : -1.0);
  return {};
}

// All other functions that launch, and their _ptsz variants on the per-thread default stream.
Result<void> measure_kinds() {
  const Ready ready = TRY(start());
  TRY(warm_up(ready));
  std::string json;
  for (const bool per_thread : {false, true}) {
    for (std::size_t which = per_thread ? 0 : 1; which < std::size(kLaunchCalls); ++which) {
      const CUstream launched = per_thread ? nullptr : ready.stream;
      const CUstream waited = per_thread ? stream_per_thread() : ready.stream;
      Samples launch;
      for (int batch = -50; batch < kBatches / 2; ++batch) {
        const std::int64_t from = now_ns();
        for (int i = 0; i < kBatch; ++i) {
          TRY(check("a launch", launch_busy_by(static_cast<LaunchCall>(which), per_thread, ready.driver, ready.kernel,
                                               1, launched)));
        }
        if (batch >= 0) launch.ns.push_back(static_cast<double>(now_ns() - from) / kBatch);
        TRY(check("cuStreamSynchronize", ready.driver.cuStreamSynchronize(waited)));
        pause();
      }
      json += (json.empty() ? "{\"" : ",\"") + std::string(kLaunchCalls[which]) + (per_thread ? "_ptsz" : "") +
              "_p50_ns\":" + std::to_string(launch.percentile(0.5));
    }
  }
  std::puts((json + "}").c_str());
  return {};
}

// Graphs of one node: the driver does nothing, so the size of a graph does not matter.
Result<void> measure_graphs() {
  const Ready ready = TRY(start());
  if (ready.driver.cuStreamBeginCapture == nullptr || ready.driver.cuGraphLaunch == nullptr)
    return fail(ErrorCode::unsupported, "this driver has no graphs");
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  TRY(check("cuStreamBeginCapture", ready.driver.cuStreamBeginCapture(ready.stream, CU_STREAM_CAPTURE_MODE_GLOBAL)));
  TRY(check("cuLaunchKernel", launch_busy(ready.driver, ready.kernel, 1, ready.stream)));
  TRY(check("cuStreamEndCapture", ready.driver.cuStreamEndCapture(ready.stream, &graph)));
  TRY(check("cuGraphInstantiate", ready.driver.cuGraphInstantiate(&exec, graph, 0)));
  Samples launch, with_wait;
  for (int batch = -50; batch < kBatches; ++batch) {
    const std::int64_t t0 = now_ns();
    for (int i = 0; i < kBatch; ++i) TRY(check("cuGraphLaunch", ready.driver.cuGraphLaunch(exec, ready.stream)));
    const std::int64_t t1 = now_ns();
    TRY(check("cuStreamSynchronize", ready.driver.cuStreamSynchronize(ready.stream)));
    const std::int64_t t2 = now_ns();
    pause();
    if (batch < 0) continue;  // warm-up
    launch.ns.push_back(static_cast<double>(t1 - t0) / kBatch);
    with_wait.ns.push_back(static_cast<double>(t2 - t0) / kBatch);
  }
  std::printf("{\"graph_p50_ns\":%.3f,\"graph_with_wait_mean_ns\":%.3f}\n", launch.percentile(0.5), with_wait.mean());
  return {};
}

Result<void> measure_allocations() {
  const Ready ready = TRY(start());
  Samples pairs;
  for (int round = 0; round < 2000; ++round) {
    const std::int64_t from = now_ns();
    for (int i = 0; i < kPairs; ++i) {
      CUdeviceptr address = 0;
      TRY(check("cuMemAlloc", ready.driver.cuMemAlloc(&address, 1u << 20)));
      TRY(check("cuMemFree", ready.driver.cuMemFree(address)));
    }
    pairs.ns.push_back(static_cast<double>(now_ns() - from) / kPairs);
  }
  std::printf("{\"pair_p50_ns\":%.3f,\"pair_mean_ns\":%.3f,\"pair_p99_ns\":%.3f}\n", pairs.percentile(0.5),
              pairs.mean(), pairs.percentile(0.99));
  return {};
}

// Alloc and free pairs that reuse the pool's memory, as in a steady state; also with eight allocations alive at a time.
Result<void> measure_pools() {
  const Ready ready = TRY(start());
  if (ready.driver.cuMemAllocAsync == nullptr || ready.driver.cuMemFreeAsync == nullptr) {
    return fail(ErrorCode::unsupported, "the driver has no memory pools");
  }
  constexpr int kAlive = 8;
  const auto round = [&](int alive) -> Result<void> {
    CUdeviceptr addresses[kAlive] = {};
    for (int i = 0; i < kPairs; i += alive) {
      for (int k = 0; k < alive; ++k) {
        TRY(check("cuMemAllocAsync", ready.driver.cuMemAllocAsync(&addresses[k], 1u << 20, ready.stream)));
      }
      for (int k = 0; k < alive; ++k) {
        TRY(check("cuMemFreeAsync", ready.driver.cuMemFreeAsync(addresses[k], ready.stream)));
      }
    }
    return {};
  };
  Samples pairs, several;
  TRY(round(1));
  const Counts before = driver_counts(ready.driver);
  for (int i = 0; i < 2000; ++i) {
    const std::int64_t t0 = now_ns();
    TRY(round(1));
    const std::int64_t t1 = now_ns();
    TRY(round(kAlive));
    pairs.ns.push_back(static_cast<double>(t1 - t0) / kPairs);
    several.ns.push_back(static_cast<double>(now_ns() - t1) / kPairs);
  }
  const Counts after = driver_counts(ready.driver);
  const double made = 2.0 * 2000 * kPairs, own = static_cast<double>(after.other - before.other) - 2 * made;
  std::printf(
      "{\"pool_pair_p50_ns\":%.3f,\"pool_pair_mean_ns\":%.3f,\"pool_pair_p99_ns\":%.3f,\"pool_several_p50_ns\":%.3f,"
      "\"driver_calls_per_pool_pair\":%.6f}\n",
      pairs.percentile(0.5), pairs.mean(), pairs.percentile(0.99), several.percentile(0.5), own / made);
  return {};
}

// `bytes` must exceed the limit that the caller has set.
Result<void> measure_refusals(std::uint64_t bytes) {
  const Ready ready = TRY(start());
  Samples refusals;
  std::uint64_t refused = 0, asked = 0;
  // A thread's first request asks the driver for its current context, so make one before measuring.
  CUdeviceptr first = 0;
  if (ready.driver.cuMemAlloc(&first, bytes) == CUDA_SUCCESS) TRY(check("cuMemFree", ready.driver.cuMemFree(first)));
  // That starts a library's thread, which sets its capture mode once. Wait, because that call belongs to no refusal.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const Counts before = driver_counts(ready.driver);
  for (int round = 0; round < 2000; ++round) {
    const std::int64_t from = now_ns();
    for (int i = 0; i < kPairs; ++i, ++asked) {
      CUdeviceptr address = 0;
      const CUresult result = ready.driver.cuMemAlloc(&address, bytes);
      if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        ++refused;
      } else if (result == CUDA_SUCCESS) {
        TRY(check("cuMemFree", ready.driver.cuMemFree(address)));
      } else {
        TRY(check("cuMemAlloc", result));
      }
    }
    refusals.ns.push_back(static_cast<double>(now_ns() - from) / kPairs);
  }
  const Counts after = driver_counts(ready.driver);
  std::printf(
      "{\"refusal_p50_ns\":%.3f,\"refusal_mean_ns\":%.3f,\"refusal_p99_ns\":%.3f,\"refused\":%lu,\"asked\":%lu,"
      "\"driver_calls_per_refusal\":%.6f}\n",
      refusals.percentile(0.5), refusals.mean(), refusals.percentile(0.99), refused, asked,
      static_cast<double>(after.other - before.other) / static_cast<double>(asked));
  return {};
}

// For a tracer: marks surround each batch and its wait, so that the tracer can count system calls in between.
Result<void> launch_between_marks() {
  const Ready ready = TRY(start());
  TRY(warm_up(ready));
  for (int batch = 0; batch < 100; ++batch) {
    ::syscall(kMarkBegin);
    TRY(launch_batch(ready, 1));
    ::syscall(kMarkWait);
    TRY(check("cuStreamSynchronize", ready.driver.cuStreamSynchronize(ready.stream)));
    ::syscall(kMarkEnd);
    pause();
  }
  std::printf("{\"launches\":%d}\n", 100 * kBatch);
  return {};
}

Result<void> measure_start() {
  const Ready ready = TRY(start());
  std::printf("{\"start_ns\":%ld}\n", ready.start_ns);
  return {};
}

Result<void> run(std::string_view what, std::uint64_t bytes) {
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  if (what == "start") return measure_start();
  if (what == "launch") return measure_launches();
  if (what == "kinds") return measure_kinds();
  if (what == "graph") return measure_graphs();
  if (what == "alloc") return measure_allocations();
  if (what == "pool") return measure_pools();
  if (what == "refuse") return measure_refusals(bytes);
  if (what == "syscalls") return launch_between_marks();
  return fail(ErrorCode::usage, "'" + std::string(what) + "' is not a measurement",
              "start, launch, kinds, graph, alloc, pool, refuse BYTES or syscalls");
}

}  // namespace
}  // namespace headgate::bench

int main(int argc, char** argv) {
  const auto done = headgate::bench::run(argc > 1 ? argv[1] : "", argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0);
  if (!done) {
    std::fprintf(stderr, "headgate-bench-cost: %s\n", done.error().message.c_str());
    return headgate::exit_status(done.error().code);
  }
  return 0;
}
