// Reads a share's pages: plain values out of memory that others write.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "guest/ledger/layout.hpp"
#include "guest/ledger/slot.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::observe {

// What a limiter reports of its work on one GPU.
struct SeatWork {
  bool metered = false;        // it measures there: the share has a ceiling, or its GPU an arbiter
  bool working = false;        // it has work in flight; also if it is not asked to say so
  std::uint64_t launches = 0;  // metered ones
  // Moves while the limiter has work in flight or waiting launches; none without an arbiter, which asks for it.
  std::optional<std::uint32_t> pulse = {};
};

// A process's seat in a share, as the process and the ledger have it.
struct Seat {
  ledger::Identity identity;  // pid in the namespace named there
  std::string command;
  std::vector<std::uint64_t> bytes = {};        // by device of the share, residual included
  std::vector<std::uint64_t> unexplained = {};  // likewise, the part that no context and no call explains
  std::vector<SeatWork> work = {};              // likewise
  std::vector<std::uint32_t> sm_percent = {};   // likewise: SlotDevice::sm_percent, 0..100
};

struct LedgerSnapshot {
  snapshot::Share share;  // without ttl, owner's name and what needs two snapshots to show
  std::vector<Seat> seats;
  bool attended = false;          // a `headgate run` waits in it, if no other process sits there
  bool waits_for_memory = false;  // an allocation does, as its limiter reports
};

// The name of a waiting `headgate run` in its seat; it uses no GPU and is no process of the share.
inline constexpr const char* kWaiterName = "headgate run";

[[nodiscard]] std::string level_word(ledger::Level level);
[[nodiscard]] std::string class_word(std::uint32_t priority_class);  // best-effort, normal, latency

// Reads once, without waiting. The pages passed check_pages() when they were mapped; what has been written there since
// gives wrong figures of this share at worst.
[[nodiscard]] LedgerSnapshot read_ledger(const ledger::PolicyPage& policy, const ledger::UsagePage& usage);

}  // namespace headgate::observe
