// Many processes contend for one memory limit through the driver and what is preloaded; and kills of the ledger itself.
// Prints one line of JSON. The work is in tests/support (contention, kill_storm), shared with the tests.
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "guest/ledger/test_page.hpp"
#include "load/driver.hpp"
#include "memory/bursts.hpp"
#include "support/contention.hpp"
#include "support/kill_storm.hpp"

namespace headgate::bench {
namespace {

using namespace load;

constexpr char kUsage[] =
    "headgate-bench-memory crowd PROCESSES THREADS ROUNDS LIMIT_BYTES\n"
    "headgate-bench-memory duel ROUNDS BYTES      two processes ask for BYTES, which the limit has once\n"
    "headgate-bench-memory bursts PROCESSES BURSTS PERIOD_MS\n"
    "headgate-bench-memory kills COUNT            of processes that work on one page of the ledger\n";

struct Ready {
  Driver driver;
  CUcontext context = nullptr;
};

Result<Ready> start() {
  Ready ready;
  ready.driver = TRY(open_driver());
  TRY(check("cuInit", ready.driver.cuInit(0)));
  TRY(check("cuDevicePrimaryCtxRetain", ready.driver.cuDevicePrimaryCtxRetain(&ready.context, 0)));
  TRY(check("cuCtxSetCurrent", ready.driver.cuCtxSetCurrent(ready.context)));
  return ready;
}

// A thread's allocations, as contention.hpp needs them: the latest is freed first.
class Allocations {
 public:
  explicit Allocations(const Ready& ready) : ready_(ready) { note(ready.driver.cuCtxSetCurrent(ready.context)); }

  ledger::Answer take(std::uint64_t bytes) {
    CUdeviceptr address = 0;
    const CUresult result = ready_.driver.cuMemAlloc(&address, bytes);
    if (result == CUDA_SUCCESS) mine_.push_back(address);
    if (result != CUDA_ERROR_OUT_OF_MEMORY) note(result);
    return {.given = result == CUDA_SUCCESS};
  }
  void give(std::uint64_t) {
    note(ready_.driver.cuMemFree(mine_.back()));
    mine_.pop_back();
  }
  void give_all() {
    while (!mine_.empty()) give(0);
  }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  void note(CUresult result) { failed_ |= result != CUDA_SUCCESS; }

  const Ready& ready_;
  std::vector<CUdeviceptr> mine_;
  bool failed_ = false;
};

struct Shared {
  ledger::Contention contention;
  std::atomic<std::uint32_t> ready;   // threads that are ready to begin
  std::atomic<std::uint32_t> filled;  // threads that cannot get another byte
  std::atomic<std::uint64_t> rest;    // bytes that those hold, in total
};

// Forks a child that does not outlive the bench.
pid_t fork_child() {
  const pid_t child = ::fork();
  if (child == 0) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  return child;
}

// Begins when all `everyone` threads are ready. Ends the calling process; status 0 if all succeeded.
[[noreturn]] void join(Shared& shared, std::uint64_t process, int threads, std::uint32_t everyone, int rounds,
                       std::uint64_t limit) {
  const auto ready = start();
  if (!ready) std::fprintf(stderr, "%s\n", ready.error().message.c_str());
  if (!ready) std::exit(1);
  std::vector<std::thread> others;
  std::atomic<bool> failed{false};
  for (int i = 0; i < threads; ++i) {
    others.emplace_back([&, i] {
      Allocations mine(*ready);
      shared.ready.fetch_add(1);
      while (shared.ready.load() < everyone) ::sched_yield();
      ledger::join_contention(mine, shared.contention, process * 100 + static_cast<std::uint64_t>(i), rounds, limit);
      // At the end all fill the limit together. No thread frees anything before all have failed to get another byte.
      shared.rest.fetch_add(ledger::take_the_rest(mine));
      shared.filled.fetch_add(1);
      while (shared.filled.load() < everyone) ::sched_yield();
      mine.give_all();
      if (mine.failed()) failed = true;
    });
  }
  for (std::thread& other : others) other.join();
  std::exit(failed ? 1 : 0);
}

Result<void> await(const std::vector<pid_t>& children) {
  bool failed = false;
  for (const pid_t child : children) {
    int status = -1;
    failed |= ::waitpid(child, &status, 0) != child || status != 0;
  }
  return failed ? Result<void>(fail(ErrorCode::failed, "a process of the crowd failed")) : Result<void>();
}

Result<void> run_crowd(int processes, int threads, int rounds, std::uint64_t limit) {
  const auto shared = ledger::make_shared_over_fork<Shared>();
  const ledger::Contention& crowd = shared->contention;
  const auto everyone = static_cast<std::uint32_t>(processes * threads);
  const int each = rounds / (processes * threads) + 1;
  const auto before = std::chrono::steady_clock::now();
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    children.push_back(fork_child());
    if (children.back() == 0) join(*shared, static_cast<std::uint64_t>(i), threads, everyone, each, limit);
  }
  TRY(await(children));
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - before;
  const std::uint64_t most = crowd.most;
  std::printf("{\"over_bytes\":%lu,\"usable\":%.6f,\"rounds\":%lu,\"round_ns\":%.1f}\n",
              most > limit ? most - limit : 0, static_cast<double>(shared->rest) / static_cast<double>(limit),
              crowd.rounds.load(), elapsed.count() / static_cast<double>(crowd.rounds));
  return {};
}

Result<void> run_duel(std::uint32_t rounds, std::uint64_t bytes) {
  const auto duel = ledger::make_shared_over_fork<ledger::Duel>();
  const auto racer = [&]() -> Result<ledger::DuelOutcome> {
    const Ready ready = TRY(start());
    Allocations mine(ready);
    const auto outcome = ledger::fight(mine, *duel, rounds, bytes);
    if (mine.failed()) return fail(ErrorCode::failed, "a racer's call failed");
    return outcome;
  };
  const pid_t child = fork_child();
  if (child == 0) std::exit(racer() ? 0 : 1);
  const ledger::DuelOutcome outcome = TRY(racer());
  TRY(await({child}));
  std::printf("{\"rounds\":%u,\"both_won\":%u,\"both_lost\":%u}\n", outcome.rounds, outcome.both_won,
              outcome.both_lost);
  return {};
}

Result<void> run_kills(int kills) {
  const ledger::SharedPage page = ledger::make_shared_page();
  ledger::prepare_killing();
  const ledger::KillStorm storm = ledger::kill_storm(*page, kills, 20'251);
  if (storm.kills != kills) return fail(ErrorCode::failed, "a process ended before it was killed");
  std::printf("{\"kills\":%d,\"at_marks\":%d,\"bytes_left\":%lu,\"slots_left\":%u,\"locks_left\":%d}\n", storm.kills,
              storm.at_marks, storm.bytes_left, storm.slots_left, storm.whole_limit_usable ? 0 : 1);
  return {};
}

Result<void> run(const std::vector<std::string_view>& words) {
  const auto number = [&words](std::size_t i) { return std::strtoull(words[i].data(), nullptr, 10); };
  const auto count = [&number](std::size_t i) { return static_cast<int>(number(i)); };
  if (words.size() == 5 && words[0] == "crowd") return run_crowd(count(1), count(2), count(3), number(4));
  if (words.size() == 3 && words[0] == "duel") return run_duel(static_cast<std::uint32_t>(number(1)), number(2));
  if (words.size() == 4 && words[0] == "bursts") return run_bursts(count(1), count(2), count(3));
  if (words.size() == 2 && words[0] == "kills") return run_kills(count(1));
  return fail(ErrorCode::usage, kUsage);
}

}  // namespace
}  // namespace headgate::bench

int main(int argc, char** argv) {
  const auto done = headgate::bench::run({argv + 1, argv + argc});
  if (!done) {
    std::fprintf(stderr, "headgate-bench-memory: %s\n", done.error().message.c_str());
    return headgate::exit_status(done.error().code);
  }
  return 0;
}
