#include "memory/bursts.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "load/driver.hpp"

namespace headgate::bench {
namespace {

using namespace load;

constexpr int kMaxBursts = 4096;
constexpr int kStepsOfABurst = 40;
constexpr std::size_t kMaxHeld = 6;

struct Shared {
  std::atomic<int> ready{0};
  std::atomic<std::int64_t> start_ns{0};
  std::atomic<unsigned> odd_answers{0};
  struct {
    std::int64_t began_ns, ended_ns;
  } bursts[kMaxBursts] = {};
};

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

void sleep_until(std::int64_t when_ns) {
  const timespec until{when_ns / 1'000'000'000, when_ns % 1'000'000'000};
  ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
}

// Half of the allocations come from the stream's pool. Most are small, so that slabs and granules hold more than was
// requested.
class Holder {
 public:
  Holder(const Driver& driver, unsigned seed) : driver_(driver), random_(seed) {}

  Result<void> open() {
    TRY(check("cuInit", driver_.cuInit(0)));
    CUcontext context = nullptr;
    TRY(check("cuDevicePrimaryCtxRetain", driver_.cuDevicePrimaryCtxRetain(&context, 0)));
    TRY(check("cuCtxSetCurrent", driver_.cuCtxSetCurrent(context)));
    TRY(check("cuStreamCreate", driver_.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING)));
    if (driver_.cuMemAllocAsync == nullptr || driver_.cuMemFreeAsync == nullptr)
      return fail(ErrorCode::unsupported, "the driver has no memory pools");
    return {};
  }

  // Returns how many results were neither success nor a refusal.
  unsigned burst() {
    odd_ = 0;
    for (int i = 0; i < kStepsOfABurst; ++i) {
      if (held_.size() >= kMaxHeld || (random_() % 3 == 0 && !held_.empty())) drop(random_() % held_.size());
      else take();
    }
    note(driver_.cuStreamSynchronize(stream_));
    return odd_;
  }

 private:
  struct Held {
    CUdeviceptr address;
    bool of_pool;
  };

  void take() {
    const std::size_t most = random_() % 4 == 0 ? 24u << 20 : 96u << 10;
    const std::size_t bytes = 1 + random_() % most;
    Held made{.address = 0, .of_pool = random_() % 2 == 0};
    const CUresult result = made.of_pool ? driver_.cuMemAllocAsync(&made.address, bytes, stream_)
                                         : driver_.cuMemAlloc(&made.address, bytes);
    if (result == CUDA_SUCCESS) held_.push_back(made);
    if (result != CUDA_ERROR_OUT_OF_MEMORY) note(result);
  }
  void drop(std::size_t which) {
    const Held gone = held_[which];
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(which));
    note(gone.of_pool ? driver_.cuMemFreeAsync(gone.address, stream_) : driver_.cuMemFree(gone.address));
  }
  void note(CUresult result) { odd_ += result != CUDA_SUCCESS; }

  const Driver& driver_;
  std::mt19937 random_;
  CUstream stream_ = nullptr;
  std::vector<Held> held_;
  unsigned odd_ = 0;
};

// Ends the calling process; status 0 if all succeeded.
[[noreturn]] void take_turns(Shared& shared, int process, int processes, int bursts, std::int64_t period_ns) {
  const auto driver = open_driver();
  if (!driver) std::fprintf(stderr, "%s\n", driver.error().message.c_str());
  if (!driver) std::exit(1);
  Holder holder(*driver, static_cast<unsigned>(process));
  if (const auto opened = holder.open(); !opened) {
    std::fprintf(stderr, "%s\n", opened.error().message.c_str());
    std::exit(1);
  }
  if (shared.ready.fetch_add(1) + 1 == processes) shared.start_ns.store(now_ns() + period_ns);
  while (shared.start_ns.load() == 0) sleep_until(now_ns() + 1'000'000);
  for (int i = process; i < bursts; i += processes) {
    sleep_until(shared.start_ns.load() + i * period_ns);
    shared.bursts[i].began_ns = now_ns();
    shared.odd_answers.fetch_add(holder.burst());
    shared.bursts[i].ended_ns = now_ns();
  }
  // Only live processes are compared with the card, so none exits before the last burst has been checked.
  sleep_until(shared.start_ns.load() + (bursts + 1) * period_ns);
  std::exit(0);
}

}  // namespace

Result<void> run_bursts(int processes, int bursts, int period_ms) {
  if (processes < 1 || processes > 64 || bursts < 1 || bursts > kMaxBursts || period_ms < 1)
    return fail(ErrorCode::usage, "bursts PROCESSES BURSTS PERIOD_MS: 1 to 64, 1 to 4096, 1 or more");
  void* at = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return fail_errno("mmap", errno);
  Shared& shared = *new (at) Shared;
  std::vector<pid_t> children;
  bool failed = false;
  for (int i = 0; i < processes; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      take_turns(shared, i, processes, bursts, period_ms * 1'000'000LL);
    }
    if (child > 0) children.push_back(child);
    failed |= child < 0;
  }
  if (failed) shared.start_ns.store(1);
  for (std::size_t i = 0; i < children.size(); ++i) {
    int status = -1;
    // Reap in order of exit, so that no process waits for one that never comes.
    failed |= ::waitpid(-1, &status, 0) < 0 || status != 0;
    if (failed) shared.start_ns.store(1);
  }
  if (failed) return fail(ErrorCode::failed, "a process of the bursts failed");
  std::printf("{\"odd_answers\":%u,\"bursts\":[", shared.odd_answers.load());
  for (int i = 0; i < bursts; ++i)
    std::printf("%s[%ld,%ld]", i == 0 ? "" : ",", shared.bursts[i].began_ns, shared.bursts[i].ended_ns);
  std::puts("]}");
  return {};
}

}  // namespace headgate::bench
