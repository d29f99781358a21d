#include "support/kill_storm.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <random>
#include <vector>

#include "guest/ledger/test_page.hpp"
#include "support/contention.hpp"

namespace headgate::ledger {

namespace {

// In the victim: it dies before step number `fatal_step`, counted from arm().
long steps_taken = -1;
long fatal_step = -1;

// Each worker does all operations: claims, many reservations and releases, and sometimes leaves.
[[noreturn]] void worker(UsagePage& page, std::uint64_t seed, long fatal) {
  std::mt19937_64 random(seed);
  arm(fatal);
  SlotRef me = seat(page, own_identity());
  std::vector<std::uint64_t> mine;
  while (shared->stop.load(std::memory_order_relaxed) == 0) {
    if (mine.empty() || random() % 2 == 0) {
      const std::uint64_t bytes = 1 + random() % 200;
      // The page may be full of dead processes' bytes while every worker is empty.
      if (!reserve(page, 0, me, bytes, kStormLimitBytes).ok) {
        if (random() % 16 == 0) reap_dead(page);
        continue;
      }
      mine.push_back(bytes);
    } else {
      give_back(page, 0, me, mine.back());
      mine.pop_back();
    }
    if (random() % 64 == 0) {
      mine.clear();
      release(page, me);
      me = seat(page, own_identity());
    }
    if (random() % 16 == 0) reap_dead(page);
  }
  release(page, me);
  ::_exit(0);
}

}  // namespace

void prepare_killing() {
  static std::unique_ptr<KillBoard, UnmapShared> board;
  board = make_shared_over_fork<KillBoard>();
  shared = board.get();
}

void arm(long fatal) {
  steps_taken = 0;
  fatal_step = fatal;
}

void step(const char* name) {
  if (steps_taken < 0 || steps_taken++ != fatal_step) return;
  std::snprintf(shared->last_step, sizeof shared->last_step, "%s", name);
  ::kill(::getpid(), SIGKILL);
}

KillStorm kill_storm(UsagePage& page, int kills, std::uint64_t seed) {
  constexpr int kWorkers = 8;
  KillStorm storm;
  std::mt19937_64 random(seed);
  std::array<pid_t, kWorkers> pids{};
  std::array<bool, kWorkers> marked{};
  const auto start = [&](std::size_t index) {
    marked[index] = random() % 2 == 0;
    const long fatal = marked[index] ? static_cast<long>(random() % 2000) : -1;
    const std::uint64_t own_seed = random();
    pids[index] = ::fork();
    if (pids[index] == 0) worker(page, own_seed, fatal);
  };
  for (std::size_t i = 0; i < kWorkers; ++i) start(i);
  while (storm.kills < kills) {
    const std::size_t index = random() % kWorkers;
    if (!marked[index]) {
      ::usleep(static_cast<useconds_t>(random() % 2000));  // deliberately a random instant
      ::kill(pids[index], SIGKILL);
    }
    int status = 0;
    const bool killed = ::waitpid(pids[index], &status, 0) == pids[index] && WIFSIGNALED(status);
    if (!killed) break;  // the count of kills shows it
    ++storm.kills;
    storm.at_marks += marked[index];
    storm.most_used_bytes = std::max(storm.most_used_bytes, used_bytes(page, 0));
    start(index);
  }
  shared->stop = 1;
  for (const pid_t pid : pids) {
    int status = 0;
    ::waitpid(pid, &status, 0);
  }
  reap_dead(page);
  storm.bytes_left = used_bytes(page, 0);
  for (std::uint32_t i = 0; i < kMaxSlots; ++i) storm.slots_left += view(page, i).kind != SlotKind::free;
  const SlotRef me = seat(page, own_identity());
  storm.whole_limit_usable = reserve(page, 0, me, kStormLimitBytes, kStormLimitBytes).ok &&
                             give_back(page, 0, me, kStormLimitBytes) == kStormLimitBytes;
  return storm;
}

}  // namespace headgate::ledger
