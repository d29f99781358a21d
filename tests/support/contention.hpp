// Many processes at one memory limit, and counters of the result. For tests (the ledger itself) and the bench (programs
// that allocate through the driver).
#pragma once

#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <random>
#include <vector>

namespace headgate::ledger {

// A zeroed object that processes share across fork.
struct UnmapShared {
  std::size_t bytes = 0;
  void operator()(void* at) const { ::munmap(at, bytes); }
};
template <class T>
std::unique_ptr<T, UnmapShared> make_shared_over_fork() {
  void* at = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) std::abort();
  return {new (at) T{}, UnmapShared{sizeof(T)}};
}

struct Contention {
  std::atomic<std::uint64_t> truth;  // bytes granted and not returned: what a driver would hold
  std::atomic<std::uint64_t> most;   // highest value of truth, or of an account that reports it
  std::atomic<std::uint64_t> wrongly_refused;
  std::atomic<std::uint64_t> rounds;

  void saw(std::uint64_t bytes) {
    std::uint64_t seen = most.load(std::memory_order_relaxed);
    while (seen < bytes && !most.compare_exchange_weak(seen, bytes)) {
    }
  }
};

// An account's reply to a request: granted or not and, if known, the bytes in use that led to it.
struct Answer {
  bool given = false;
  bool told = false;
  std::uint64_t used_bytes = 0;
};

// One of many processes: `rounds` times requests up to 4 MiB or returns the latest, then returns all. `account` has
// Answer take(bytes) and void give(). A refusal that tells its reason is correct only if the request did not fit.
// `truth` changes after the account when it grows and before it when it shrinks, so it never exceeds the account.
template <class Account>
void join_contention(Account& account, Contention& crowd, std::uint64_t seed, int rounds, std::uint64_t limit) {
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> mine;
  const auto give_latest = [&] {
    crowd.truth.fetch_sub(mine.back());
    account.give(mine.back());
    mine.pop_back();
  };
  for (int i = 0; i < rounds; ++i) {
    if (mine.empty() || random() % 2 == 0) {
      const std::uint64_t bytes = 1 + random() % (4 << 20);
      const Answer answer = account.take(bytes);
      if (answer.given) {
        mine.push_back(bytes);
        crowd.saw(crowd.truth.fetch_add(bytes) + bytes);
      } else if (answer.told && answer.used_bytes + bytes <= limit) {
        crowd.wrongly_refused.fetch_add(1);
      }
      if (answer.told) crowd.saw(answer.used_bytes);
    } else {
      give_latest();
    }
    crowd.rounds.fetch_add(1, std::memory_order_relaxed);
  }
  while (!mine.empty()) give_latest();
}

// Takes all that is left, to the last byte, and keeps it.
template <class Account>
std::uint64_t take_the_rest(Account& account) {
  std::uint64_t taken = 0;
  for (std::uint64_t bytes = 4 << 20; bytes > 0; bytes /= 2)
    while (account.take(bytes).given) taken += bytes;
  return taken;
}

struct Duel {
  std::atomic<std::uint32_t> arrived, asked, wins;
};
struct DuelOutcome {
  std::uint32_t rounds = 0, both_won = 0, both_lost = 0;
};

// One of two processes that in every round request the same bytes, enough for one only, at the same moment. Both get
// the same outcome.
template <class Account>
DuelOutcome fight(Account& account, Duel& duel, std::uint32_t rounds, std::uint64_t bytes) {
  const auto meet = [](std::atomic<std::uint32_t>& counter, std::uint32_t target) {
    counter.fetch_add(1);
    for (int spins = 0; counter.load() < target; ++spins)
      if (spins > 200) ::sched_yield();
  };
  DuelOutcome outcome;
  std::uint32_t wins_before = 0;
  while (outcome.rounds < rounds) {
    meet(duel.arrived, 2 * ++outcome.rounds);
    const bool won = account.take(bytes).given;
    if (won) duel.wins.fetch_add(1);
    meet(duel.asked, 2 * outcome.rounds);
    // Neither requests again before both have reached the next round.
    const std::uint32_t wins = duel.wins.load();
    outcome.both_won += wins - wins_before == 2;
    outcome.both_lost += wins == wins_before;
    wins_before = wins;
    if (won) account.give(bytes);
  }
  return outcome;
}

}  // namespace headgate::ledger
