// Kills processes at chosen stores of the ledger's protocols and at random instants. For the crash tests and the bench.
// kill_storm.cpp needs the ledger that was built with HEADGATE_LEDGER_STEPS.
#pragma once

#include <atomic>
#include <cstdint>

#include "guest/ledger/layout.hpp"

namespace headgate::ledger {

// Messages between the killer, its victims and the other processes; shared across fork.
struct KillBoard {
  std::atomic<std::uint32_t> stop;
  std::atomic<std::uint32_t> working;    // the sibling is in its loop
  std::atomic<std::uint32_t> releasing;  // the victim has begun to release an orphan
  char last_step[64];                    // of the victim
};
inline KillBoard* shared = nullptr;

// Makes a new board; call it before the first fork.
void prepare_killing();

// In the victim: it dies before step number `fatal`, counted from now; never if negative.
void arm(long fatal);

inline constexpr std::uint64_t kStormLimitBytes = 1000;

struct KillStorm {
  int kills = 0, at_marks = 0;        // at_marks: at chosen stores; the rest at random instants
  std::uint64_t most_used_bytes = 0;  // right after a kill
  std::uint64_t bytes_left = 0;       // after all have left and the dead are reaped
  std::uint32_t slots_left = 0;
  bool whole_limit_usable = false;  // a new process gets all of it, so no lock is left
};

// Runs eight processes that claim, reserve, release, leave and reap on device 0 of `page`, until `kills` of them were
// killed (SIGKILL). Each is replaced at once.
[[nodiscard]] KillStorm kill_storm(UsagePage& page, int kills, std::uint64_t seed);

}  // namespace headgate::ledger
