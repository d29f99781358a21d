// DIR/node: its head, the journal and the state, in this order. Version and size are in the head; another one is
// refused.
#pragma once

#include <pthread.h>
#include <atomic>
#include <cstdint>
#include <string>

#include "base/unique_fd.hpp"
#include "sim/engine.hpp"

namespace headgate::sim {

inline constexpr std::uint64_t kNodeMagic = 0x65646f6e2d676468;  // "hdg-node"
inline constexpr std::uint32_t kNodeVersion = 14;
inline constexpr std::uint64_t kJournalBytes = 1 << 20;

// What a step is about to change, as it was. `used` is the only word that counts: an entry is there once it covers it.
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
  std::atomic<std::uint32_t> sleepers;  // somebody waits for what no queue promises
  std::uint64_t reaped_ns;              // under the mutex
  JournalPage journal;
  alignas(4096) State state;
};

// Whether something else has written over its first bytes. A lock or a journal of such a file is not to be touched.
[[nodiscard]] bool is_damaged(const NodeFile& file);

// A file just made in that directory: where everybody may make files, everybody may write this one, whatever the
// maker's umask.
void give_to_all_of(const std::string& directory, const UniqueFd& file);

class FileJournal final : public Journal {
 public:
  FileJournal(JournalPage& page, State& state) : page_(page), base_(reinterpret_cast<std::byte*>(&state)) {}
  void save(const void* what, std::size_t bytes) override;
  void commit() override;
  // Puts back what an unfinished step of a dead process changed. Can itself be killed and repeated.
  void undo();

 private:
  JournalPage& page_;
  std::byte* base_;
};

// For tests: kill -9 of the calling process at its n-th store into the journal (0: never). HEADGATE_SIM_KILL_STEP sets
// it.
void kill_at_step(std::uint64_t n);

}  // namespace headgate::sim
