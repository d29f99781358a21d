// Killing processes at chosen stores of the ledger's protocols and at random instants. For the crash tests and the
// bench; whoever compiles kill_storm.cpp links the ledger that was built with HEADGATE_LEDGER_STEPS.
#pragma once

#include <atomic>
#include <cstdint>

#include "guest/ledger/layout.hpp"

namespace headgate::ledger {

// What the killed, the living and the one who kills tell each other; shared over fork.
struct KillBoard {
  std::atomic<std::uint32_t> stop;
  std::atomic<std::uint32_t> working;    // the sibling is in its loop
  std::atomic<std::uint32_t> releasing;  // the victim has begun to release an orphan
  char last_step[64];                    // of the victim
};
inline KillBoard* shared = nullptr;

// A fresh board; before the first fork.
void prepare_killing();

// In the victim: it dies before its step number `fatal`, counted from now; never if negative.
void arm(long fatal);

inline constexpr std::uint64_t kStormLimitBytes = 1000;

struct KillStorm {
  int kills = 0, at_marks = 0;        // the rest at random instants
  std::uint64_t most_used_bytes = 0;  // right after a kill
  std::uint64_t bytes_left = 0;       // once all have left and the dead are reaped
  std::uint32_t slots_left = 0;
  bool whole_limit_usable = false;  // one newcomer gets all at once: no lock is left
};

// Eight processes that claim, reserve, give back, leave and reap on device 0 of `page`, until `kills` of them were
// killed (SIGKILL), each replaced at once.
[[nodiscard]] KillStorm kill_storm(UsagePage& page, int kills, std::uint64_t seed);

}  // namespace headgate::ledger
