#include "load/generate.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>
#include <new>
#include <thread>

#include "guest/ledger/clock.hpp"
#include "load/asking.hpp"
#include "load/kernels.hpp"

namespace headgate::load {

namespace {

constexpr unsigned kMaxProcesses = 64;
constexpr std::int64_t kReadyDeadlineNs = 120'000'000'000;

struct Shared {
  AskingLog asking;
  std::atomic<unsigned> ready{0};
  std::atomic<bool> stop{false};  // set by a failure or a signal
  std::atomic<std::int64_t> start_ns{0};
  std::atomic<std::int64_t> ended_ns{0};
  std::atomic<std::int64_t> drained_ns{0};
  ProcessReport reports[kMaxProcesses];
};

// For the signal handler, which has no other way to reach it.
std::atomic<Shared*> g_shared{nullptr};

void stop_on_signal(int) {
  if (Shared* shared = g_shared.load()) shared->stop.store(true);
}

// Host time, because the report is compared with the simulated node's truth.
std::int64_t now_ns() { return ledger::host_ns(); }

void sleep_ns(std::int64_t duration_ns) {
  const timespec length{duration_ns / 1'000'000'000, duration_ns % 1'000'000'000};
  ::clock_nanosleep(CLOCK_MONOTONIC, 0, &length, nullptr);
}

void raise_to(std::atomic<std::int64_t>& value, std::int64_t at_least) {
  std::int64_t seen = value.load();
  while (seen < at_least && !value.compare_exchange_weak(seen, at_least)) {
  }
}

// The target of one thread's launches: streams, each with two events to limit how far launches run ahead.
struct Lane {
  CUstream stream = nullptr;
  CUevent events[2] = {};
  bool recorded[2] = {};
  unsigned turn = 0;
  unsigned launches = 0;
};

class Thread {
 public:
  Thread(const Options& options, Shared& shared, const Driver& driver, CUcontext context, const BusyKernel& kernel,
         std::uint64_t salt)
      : options_(options),
        shared_(shared),
        driver_(driver),
        context_(context),
        kernel_(kernel),
        mix_(options.mix, salt) {}

  Result<void> prepare() {
    TRY(check("cuCtxSetCurrent", driver_.cuCtxSetCurrent(context_)));
    lanes_.resize(options_.streams);
    for (Lane& lane : lanes_) {
      if (options_.per_thread) {
        lane.stream = stream_per_thread();
      } else {
        TRY(check("cuStreamCreate", driver_.cuStreamCreate(&lane.stream, CU_STREAM_NON_BLOCKING)));
      }
      if (options_.sync == SyncStyle::depth)
        for (CUevent& event : lane.events)
          TRY(check("cuEventCreate", driver_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)));
    }
    if (options_.graph_kernels > 0) return capture_graph();
    return {};
  }

  Result<void> run() {
    const std::int64_t end = shared_.asking.started_ns() + static_cast<std::int64_t>(options_.duration_us * 1e3);
    if (options_.no_launches) stay(end);
    std::uint64_t rounds = 0;
    std::int64_t now = now_ns();
    while (now < end && !shared_.stop.load(std::memory_order_relaxed) &&
           (options_.most_launches == 0 || rounds < options_.most_launches)) {
      Lane& lane = lanes_[rounds % lanes_.size()];
      if (options_.sync == SyncStyle::batch && rounds % options_.sync_launches == 0) request_began_ns_ = now;
      shared_.asking.begin(now);
      const std::int64_t called = now_ns();
      const CUresult result = launch(lane);
      now = now_ns();
      done.launch_ns.add(static_cast<std::uint64_t>(now - called));
      Result<bool> waited = result == CUDA_SUCCESS ? wait(lane, ++rounds)
                                                   : Result<bool>(std::unexpected(check("launch", result).error()));
      now = waited && *waited ? now_ns() : now;
      if (options_.sync == SyncStyle::batch && waited && *waited)
        done.request_ns.add(static_cast<std::uint64_t>(now - request_began_ns_));
      shared_.asking.end(now);
      if (!waited) return std::unexpected(waited.error());
      if (options_.gap_us > 0 && (options_.sync != SyncStyle::batch || *waited)) {
        sleep_ns(static_cast<std::int64_t>(options_.gap_us * 1e3));
        now = now_ns();
      }
    }
    return {};
  }

  ProcessReport done;  // of this thread

 private:
  // Keeps its memory; with --grow, asks for more and more, like a program that leaks.
  void stay(std::int64_t end) {
    const auto gap_ns = static_cast<std::int64_t>(options_.gap_us * 1e3);
    std::int64_t next = now_ns() + gap_ns;
    for (std::int64_t now; (now = now_ns()) < end && !shared_.stop.load(std::memory_order_relaxed);) {
      const bool grows = options_.grow_bytes != 0 && !done.grow_refused;
      // Long sleeps, because wake-ups of 62 idle programs would disturb the measurement.
      sleep_ns(std::clamp<std::int64_t>((grows ? std::min(next, end) : end) - now, 1'000'000, 200'000'000));
      if (!grows || now_ns() < next) continue;
      CUdeviceptr more = 0;
      if (driver_.cuMemAlloc(&more, options_.grow_bytes) == CUDA_SUCCESS) done.grown_bytes += options_.grow_bytes;
      else done.grow_refused = true;
      next += gap_ns;
    }
  }

  CUresult launch(Lane& lane) {
    if (graph_ != nullptr) {
      done.launches += options_.graph_kernels;
      done.kernel_us += graph_us_;
      return options_.per_thread ? driver_.cuGraphLaunch_ptsz(graph_, nullptr)
                                 : driver_.cuGraphLaunch(graph_, lane.stream);
    }
    const double us = mix_.next_us();
    ++done.launches;
    done.kernel_us += us;
    return launch_by(us, lane.stream);
  }

  CUresult launch_by(double us, CUstream stream) {
    return launch_busy_by(options_.call, options_.per_thread, driver_, kernel_, us,
                          options_.per_thread ? nullptr : stream, options_.blocks);
  }

  // Returns true if it waited for the GPU, so that the caller must read the clock again.
  Result<bool> wait(Lane& lane, std::uint64_t rounds) {
    switch (options_.sync) {
      case SyncStyle::full: return false;
      case SyncStyle::each: TRY(check("cuStreamSynchronize", driver_.cuStreamSynchronize(lane.stream))); return true;
      case SyncStyle::batch:
        if (rounds % options_.sync_launches != 0) return false;
        for (const Lane& each : lanes_) TRY(check("cuStreamSynchronize", driver_.cuStreamSynchronize(each.stream)));
        return true;
      case SyncStyle::depth: break;
    }
    if (++lane.launches % std::max(1u, options_.sync_launches / 2) != 0) return false;
    const unsigned turn = lane.turn;
    lane.turn ^= 1;
    TRY(check("cuEventRecord", driver_.cuEventRecord(lane.events[turn], lane.stream)));
    lane.recorded[turn] = true;
    if (lane.recorded[lane.turn]) TRY(check("cuEventSynchronize", driver_.cuEventSynchronize(lane.events[lane.turn])));
    return true;
  }

  Result<void> capture_graph() {
    if (driver_.cuStreamBeginCapture == nullptr || driver_.cuGraphInstantiate == nullptr ||
        driver_.cuGraphLaunch == nullptr || (options_.per_thread && driver_.cuGraphLaunch_ptsz == nullptr))
      return fail(ErrorCode::unsupported, "this driver has no CUDA graphs", "leave --graph out");
    const CUstream stream = lanes_[0].stream;
    TRY(check("cuStreamBeginCapture", driver_.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)));
    for (unsigned i = 0; i < options_.graph_kernels; ++i) {
      const double us = mix_.next_us();
      graph_us_ += us;
      TRY(check("a launch (captured)", launch_by(us, stream)));
    }
    CUgraph graph = nullptr;
    TRY(check("cuStreamEndCapture", driver_.cuStreamEndCapture(stream, &graph)));
    TRY(check("cuGraphInstantiateWithFlags", driver_.cuGraphInstantiate(&graph_, graph, 0)));
    return {};
  }

  const Options& options_;
  Shared& shared_;
  const Driver& driver_;
  CUcontext context_;
  const BusyKernel& kernel_;
  MixSource mix_;
  std::vector<Lane> lanes_;
  CUgraphExec graph_ = nullptr;
  double graph_us_ = 0;
  std::int64_t request_began_ns_ = 0;
};

Result<void> take_memory(const Options& options, const Driver& driver, ProcessReport& report) {
  CUdeviceptr kept = 0;
  if (options.memory_bytes > 0) {
    TRY(check("cuMemAlloc", driver.cuMemAlloc(&kept, options.memory_bytes)));
    report.memory_bytes = options.memory_bytes;
  }
  if (options.attempt_bytes > 0) {
    CUdeviceptr attempted = 0;
    const std::int64_t before = now_ns();
    const CUresult result = driver.cuMemAlloc(&attempted, options.attempt_bytes);
    report.attempt_ns = static_cast<std::uint64_t>(now_ns() - before);
    report.attempt_result = result;
  }
  std::size_t free_bytes = 0, total_bytes = 0;
  TRY(check("cuMemGetInfo", driver.cuMemGetInfo(&free_bytes, &total_bytes)));
  report.free_bytes = free_bytes;
  report.total_bytes = total_bytes;
  if (options.edge) {
    CUdeviceptr edge = 0;
    report.edge_over_result = driver.cuMemAlloc(&edge, free_bytes + 1);
    if (report.edge_over_result == CUDA_SUCCESS) TRY(check("cuMemFree", driver.cuMemFree(edge)));
    report.edge_exact_result = driver.cuMemAlloc(&edge, free_bytes);
  }
  return {};
}

// Waits until every thread is ready, one has failed, or the time is up.
Result<void> start_together(const Options& options, Shared& shared) {
  const std::int64_t deadline = now_ns() + kReadyDeadlineNs;
  const unsigned everyone = options.processes * options.threads;
  if (shared.ready.fetch_add(1) + 1 == everyone) {
    const std::int64_t now = now_ns();
    shared.asking.start(now);
    shared.start_ns.store(now, std::memory_order_release);
  }
  while (shared.start_ns.load(std::memory_order_acquire) == 0) {
    if (shared.stop.load()) return fail(ErrorCode::failed, "the load was stopped before it began");
    if (now_ns() > deadline) return fail(ErrorCode::failed, "not every thread was ready in two minutes");
    sleep_ns(200'000);
  }
  return {};
}

// Returns how long the calling thread has been ready without a CPU since its start; 0 if the kernel does not report it.
std::int64_t processor_wait_ns() {
  // proc(5): CPU time and run-queue wait in ns, and the number of time slices.
  std::int64_t ran = 0, waited = 0;
  return std::ifstream("/proc/thread-self/schedstat") >> ran >> waited ? waited : 0;
}

Result<void> run_process(const Options& options, Shared& shared, unsigned process, ProcessReport& report) {
  report.pid = static_cast<std::uint32_t>(::getpid());
  const Driver driver = TRY(open_driver());
  TRY(check("cuInit", driver.cuInit(0)));
  CUdevice device = 0;
  TRY(check("cuDeviceGet", driver.cuDeviceGet(&device, options.device)));
  TRY(check("cuDeviceGetName", driver.cuDeviceGetName(report.device_name, sizeof report.device_name, device)));
  CUcontext context = nullptr;
  TRY(check("cuDevicePrimaryCtxRetain", driver.cuDevicePrimaryCtxRetain(&context, device)));
  TRY(check("cuCtxSetCurrent", driver.cuCtxSetCurrent(context)));
  const BusyKernel kernel = TRY(load_busy_kernel(driver, options.rounds_per_us));
  TRY(take_memory(options, driver, report));

  std::vector<std::unique_ptr<Thread>> threads;
  for (unsigned i = 0; i < options.threads; ++i) {
    threads.push_back(std::make_unique<Thread>(options, shared, driver, context, kernel, process * 1000 + i));
    TRY(threads.back()->prepare());
  }
  std::vector<Result<void>> results(options.threads);
  const auto body = [&](unsigned i) {
    // With the default timer slack of 50 us, late wake-ups would be counted against the gate.
    ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    if (const CUresult current = driver.cuCtxSetCurrent(context); current != CUDA_SUCCESS) {
      results[i] = check("cuCtxSetCurrent", current);
    } else if (results[i] = start_together(options, shared); results[i]) {
      const std::int64_t before = processor_wait_ns();
      results[i] = threads[i]->run();
      threads[i]->done.processor_wait_ns = processor_wait_ns() - before;
    }
    if (!results[i]) shared.stop.store(true);
  };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < options.threads; ++i) others.emplace_back(body, i);
  body(0);
  for (std::thread& other : others) other.join();
  raise_to(shared.ended_ns, now_ns());
  for (unsigned i = 0; i < options.threads; ++i) {
    TRY(results[i]);
    merge(report, threads[i]->done);
  }
  TRY(check("cuCtxSynchronize", driver.cuCtxSynchronize()));
  raise_to(shared.drained_ns, now_ns());
  return {};
}

void run_and_report(const Options& options, Shared& shared, unsigned process) {
  ProcessReport& report = shared.reports[process];
  if (const Result<void> done = run_process(options, shared, process, report); !done) {
    std::strncpy(report.error, done.error().message.c_str(), sizeof report.error - 1);
    report.error_code = 1 + static_cast<int>(done.error().code);
    shared.stop.store(true);
  }
}

Result<void> run_forked(const Options& options, Shared& shared) {
  std::vector<pid_t> children;
  for (unsigned i = 0; i < options.processes; ++i) {
    const pid_t child = ::fork();
    if (child < 0) {
      shared.stop.store(true);
      return fail_errno("fork", errno);
    }
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      run_and_report(options, shared, i);
      std::exit(0);  // not _exit: driver and limiter have exit handlers, as in a real process
    }
    children.push_back(child);
  }
  for (unsigned i = 0; i < children.size(); ++i) {
    int status = 0;
    while (::waitpid(children[i], &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFSIGNALED(status)) {
      shared.stop.store(true);
      std::snprintf(shared.reports[i].error, sizeof shared.reports[i].error, "process %u died of signal %d", i,
                    WTERMSIG(status));
      shared.reports[i].error_code = 1;
    }
  }
  return {};
}

}  // namespace

void merge(ProcessReport& into, const ProcessReport& from) {
  into.launch_ns.merge(from.launch_ns);
  into.request_ns.merge(from.request_ns);
  into.launches += from.launches;
  into.kernel_us += from.kernel_us;
  into.memory_bytes += from.memory_bytes;
  into.grown_bytes += from.grown_bytes;
  into.grow_refused |= from.grow_refused;
  into.attempt_ns = std::max(into.attempt_ns, from.attempt_ns);
  into.processor_wait_ns = std::max(into.processor_wait_ns, from.processor_wait_ns);
}

Result<Report> generate(const Options& options) {
  // Shared before fork, so that all processes update it; zeroed by the kernel, constructed in place.
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return fail_errno("mmap", errno);
  Shared& shared = *new (memory) Shared;
  g_shared.store(&shared);
  struct sigaction action{};
  action.sa_handler = stop_on_signal;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);

  if (options.processes == 1) {
    run_and_report(options, shared, 0);
  } else {
    TRY(run_forked(options, shared));
  }
  Report report;
  report.processes.assign(shared.reports, shared.reports + options.processes);
  for (const ProcessReport& process : report.processes)
    if (process.error_code != 0) return fail(static_cast<ErrorCode>(process.error_code - 1), process.error);
  shared.asking.finish(shared.ended_ns.load());
  report.started_ns = shared.start_ns.load();
  report.ended_ns = shared.ended_ns.load();
  report.drained_ns = shared.drained_ns.load();
  const auto buckets =
      static_cast<std::size_t>(report.ended_ns / kIdleBucketNs - report.started_ns / kIdleBucketNs + 1);
  for (std::size_t i = 0; i < std::min(buckets, kIdleBuckets); ++i) report.idle_ns.push_back(shared.asking.idle_ns(i));
  g_shared.store(nullptr);
  ::munmap(memory, sizeof(Shared));
  return report;
}

}  // namespace headgate::load
