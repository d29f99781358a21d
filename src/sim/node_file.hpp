// DIR/node: header, journal and state, in this order. The header has version and size; a file with others is refused.
#pragma once

#include <pthread.h>
#include <atomic>
#include <cstdint>
#include <string>

#include "base/unique_fd.hpp"
#include "sim/engine.hpp"

namespace headgate::sim {

inline constexpr std::uint64_t kNodeMagic = 0x65646f6e2d676468;  // "hdg-node"
inline constexpr std::uint32_t kNodeVersion = 16;
inline constexpr std::uint64_t kJournalBytes = 1 << 20;

// Old contents of what a step is about to change. Only `used` counts: an entry exists once `used` covers it.
struct JournalPage {
  std::atomic<std::uint64_t> used;
  std::byte bytes[kJournalBytes];
};

struct NodeFile {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t reserved;
  std::uint64_t size_bytes;
  pthread_mutex_t mutex;                // robust, shared between processes
  std::atomic<std::uint32_t> word;      // futex: grows when sleepers should look again
  std::atomic<std::uint32_t> sleepers;  // threads that wait for what no queue announces
  std::uint64_t reaped_ns;              // under the mutex
  JournalPage journal;
  alignas(4096) State state;
};

// Returns true if something else has overwritten its first bytes. Then its lock and journal must not be used.
[[nodiscard]] bool is_damaged(const NodeFile& file);

// For a new file in that directory: if all users may create files there, makes it writable by all, whatever the umask.
void give_to_all_of(const std::string& directory, const UniqueFd& file);

class FileJournal final : public Journal {
 public:
  FileJournal(JournalPage& page, State& state) : page_(page), base_(reinterpret_cast<std::byte*>(&state)) {}
  void save(const void* what, std::size_t bytes) override;
  void commit() override;
  // Restores what a dead process's unfinished step changed. If killed, it can be repeated.
  void undo();

 private:
  JournalPage& page_;
  std::byte* base_;
};

// For tests: kills the calling process with SIGKILL at its n-th store into the journal (0: never).
// HEADGATE_SIM_KILL_STEP sets it.
void kill_at_step(std::uint64_t n);

}  // namespace headgate::sim
