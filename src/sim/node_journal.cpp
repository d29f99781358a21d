#include <unistd.h>
#include <csignal>
#include <cstring>

#include "sim/node_file.hpp"

namespace headgate::sim {
namespace {

struct Entry {
  std::uint64_t offset;
  std::uint64_t bytes;  // size of the saved bytes, which precede this entry
};

std::atomic<std::uint64_t> kill_step{0}, steps{0};

void step() {
  const std::uint64_t now = steps.fetch_add(1, std::memory_order_relaxed) + 1;
  if (now == kill_step.load(std::memory_order_relaxed)) ::kill(::getpid(), SIGKILL);
}

}  // namespace

void kill_at_step(std::uint64_t n) {
  kill_step.store(n, std::memory_order_relaxed);
  steps.store(0, std::memory_order_relaxed);
}

// All stores of a killed process up to the kill are visible, so only the compiler's order matters: hence release stores
// and the signal fence. The entry follows its saved bytes, so that undo can walk back from the newest.
void FileJournal::save(const void* what, std::size_t bytes) {
  step();
  const std::uint64_t used = page_.used.load(std::memory_order_relaxed);
  const std::uint64_t padded = (bytes + 7) / 8 * 8;
  if (used + padded + sizeof(Entry) > kJournalBytes) ::abort();  // steps are bounded: see Engine::step_end_ns
  std::memcpy(page_.bytes + used, what, bytes);
  const Entry entry{static_cast<std::uint64_t>(static_cast<const std::byte*>(what) - base_), bytes};
  std::memcpy(page_.bytes + used + padded, &entry, sizeof entry);
  page_.used.store(used + padded + sizeof entry, std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

void FileJournal::commit() {
  if (page_.used.load(std::memory_order_relaxed) == 0) return;
  step();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  page_.used.store(0, std::memory_order_release);
}

void FileJournal::undo() {
  std::uint64_t used = page_.used.load(std::memory_order_acquire);
  while (used >= sizeof(Entry) && used <= kJournalBytes) {
    Entry entry;
    std::memcpy(&entry, page_.bytes + used - sizeof entry, sizeof entry);
    used -= sizeof entry;
    const std::uint64_t padded = (entry.bytes + 7) / 8 * 8;
    if (padded > used || entry.offset > sizeof(State) || entry.bytes > sizeof(State) - entry.offset) break;
    used -= padded;
    std::memcpy(base_ + entry.offset, page_.bytes + used, entry.bytes);
  }
  page_.used.store(0, std::memory_order_release);
}

}  // namespace headgate::sim
