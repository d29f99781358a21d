// What this process holds, by key (a device pointer, an array), so that a free returns what its allocation took.
//
// Private to the process. Shards of open addressing over mapped memory: nothing is allocated from the host program, and
// an allocation or free takes one short, rarely contended lock. Lookups of unknown keys are normal: memory allocated by
// a call that we do not see is freed like any other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "guest/bare/short_lock.hpp"

namespace headgate::limiter {

struct Allocation {
  std::uint64_t bytes = 0;         // below 2^56
  std::uint32_t device_index = 0;  // below 256
  std::uint64_t owner = 0;         // the context that frees it when destroyed; even; 0: none
};

class AllocationTable {
 public:
  constexpr AllocationTable() = default;

  // Returns false if no memory could be mapped for the table; the caller then keeps the bytes charged.
  bool put(std::uint64_t key, Allocation holding);

  // Removes the entry. Returns false for an unknown key.
  bool take(std::uint64_t key, Allocation& holding);

  // Looks the entry up without removing it.
  bool look(std::uint64_t key, Allocation& holding);

  // For destroying an owner: call mark_owned() before the driver call, sweep_marked() after its success. An entry put
  // in between, even with the same owner and key, is new and stays. Adds the removed bytes to `bytes` by device index.
  void mark_owned(std::uint64_t owner);
  void sweep_marked(std::uint64_t owner, std::span<std::uint64_t> bytes);

  // Forgets everything without unmapping; for a forked child, where a thread that is gone may have held any lock.
  void forget_after_fork();

 private:
  struct Entry {
    std::uint64_t key_plus_one;  // 0: free
    std::uint64_t packed;        // device index in the high 8 bits
    std::uint64_t owner;         // bit 0: marked
  };
  struct alignas(64) Shard {
    bare::ShortLock lock;
    Entry* entries = nullptr;
    std::size_t capacity = 0;  // a power of two, or 0
    std::size_t count = 0;
  };
  static constexpr std::size_t kShards = 16;

  static std::uint64_t mixed(std::uint64_t key);
  static bool grow(Shard& shard);
  static Entry* find(Shard& shard, std::uint64_t key, std::uint64_t hash);
  static void insert(Shard& shard, Entry entry, std::uint64_t hash);
  static void remove(Shard& shard, Entry* entry);

  Shard shards_[kShards]{};
};

}  // namespace headgate::limiter
