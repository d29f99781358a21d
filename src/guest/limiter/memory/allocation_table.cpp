#include "guest/limiter/memory/allocation_table.hpp"

#include <sys/mman.h>

#include "guest/bare/keep_errno.hpp"

namespace headgate::limiter {
namespace {

constexpr std::size_t kFirstCapacity = 256;
constexpr int kDeviceShift = 56;
constexpr std::uint64_t kMark = 1;

Allocation unpack(std::uint64_t packed, std::uint64_t owner) {
  return {packed & ((1ull << kDeviceShift) - 1), static_cast<std::uint32_t>(packed >> kDeviceShift), owner & ~kMark};
}

}  // namespace

// Allocations are aligned, so a key's low bits carry little information: multiply and use the high bits.
std::uint64_t AllocationTable::mixed(std::uint64_t key) {
  const std::uint64_t product = key * 0x9e37'79b9'7f4a'7c15ull;
  return product ^ (product >> 32);
}

bool AllocationTable::grow(Shard& shard) {
  const std::size_t capacity = shard.capacity == 0 ? kFirstCapacity : shard.capacity * 2;
  const bare::KeepErrno keep_errno;
  void* memory = ::mmap(nullptr, capacity * sizeof(Entry), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  Shard bigger;
  bigger.entries = static_cast<Entry*>(memory);
  bigger.capacity = capacity;
  for (std::size_t i = 0; i < shard.capacity; ++i) {
    const Entry& entry = shard.entries[i];
    if (entry.key_plus_one != 0) insert(bigger, entry, mixed(entry.key_plus_one - 1));
  }
  if (shard.entries != nullptr) ::munmap(shard.entries, shard.capacity * sizeof(Entry));
  shard.entries = bigger.entries;
  shard.capacity = bigger.capacity;
  shard.count = bigger.count;
  return true;
}

void AllocationTable::insert(Shard& shard, Entry entry, std::uint64_t hash) {
  const std::size_t mask = shard.capacity - 1;
  std::size_t at = (hash >> 8) & mask;
  while (shard.entries[at].key_plus_one != 0 && shard.entries[at].key_plus_one != entry.key_plus_one)
    at = (at + 1) & mask;
  if (shard.entries[at].key_plus_one == 0) ++shard.count;
  shard.entries[at] = entry;
}

AllocationTable::Entry* AllocationTable::find(Shard& shard, std::uint64_t key, std::uint64_t hash) {
  if (shard.capacity == 0) return nullptr;
  const std::size_t mask = shard.capacity - 1;
  for (std::size_t at = (hash >> 8) & mask; shard.entries[at].key_plus_one != 0; at = (at + 1) & mask) {
    if (shard.entries[at].key_plus_one == key + 1) return &shard.entries[at];
  }
  return nullptr;
}

// Moves later entries of the same run up, so that no probe ends early and no tombstones accumulate.
void AllocationTable::remove(Shard& shard, Entry* entry) {
  const std::size_t mask = shard.capacity - 1;
  std::size_t hole = static_cast<std::size_t>(entry - shard.entries);
  for (std::size_t at = (hole + 1) & mask; shard.entries[at].key_plus_one != 0; at = (at + 1) & mask) {
    const std::size_t home = (mixed(shard.entries[at].key_plus_one - 1) >> 8) & mask;
    if (((at - home) & mask) < ((at - hole) & mask)) continue;
    shard.entries[hole] = shard.entries[at];
    hole = at;
  }
  shard.entries[hole].key_plus_one = 0;
  --shard.count;
}

bool AllocationTable::put(std::uint64_t key, Allocation holding) {
  const std::uint64_t hash = mixed(key);
  Shard& shard = shards_[hash % kShards];
  const bare::Locked locked(shard.lock);
  if ((shard.count + 1) * 4 > shard.capacity * 3 && !grow(shard) && shard.count + 1 >= shard.capacity) return false;
  insert(shard, {key + 1, holding.bytes | std::uint64_t{holding.device_index} << kDeviceShift, holding.owner & ~kMark},
         hash);
  return true;
}

bool AllocationTable::look(std::uint64_t key, Allocation& holding) {
  const std::uint64_t hash = mixed(key);
  Shard& shard = shards_[hash % kShards];
  const bare::Locked locked(shard.lock);
  const Entry* entry = find(shard, key, hash);
  if (entry == nullptr) return false;
  holding = unpack(entry->packed, entry->owner);
  return true;
}

bool AllocationTable::take(std::uint64_t key, Allocation& holding) {
  const std::uint64_t hash = mixed(key);
  Shard& shard = shards_[hash % kShards];
  const bare::Locked locked(shard.lock);
  Entry* entry = find(shard, key, hash);
  if (entry == nullptr) return false;
  holding = unpack(entry->packed, entry->owner);
  remove(shard, entry);
  return true;
}

void AllocationTable::mark_owned(std::uint64_t owner) {
  for (Shard& shard : shards_) {
    const bare::Locked locked(shard.lock);
    for (std::size_t i = 0; i < shard.capacity; ++i) {
      Entry& entry = shard.entries[i];
      if (entry.key_plus_one != 0 && entry.owner == owner) entry.owner |= kMark;
    }
  }
}

void AllocationTable::sweep_marked(std::uint64_t owner, std::span<std::uint64_t> bytes) {
  for (Shard& shard : shards_) {
    const bare::Locked locked(shard.lock);
    for (std::size_t i = 0; i < shard.capacity;) {
      Entry& entry = shard.entries[i];
      if (entry.key_plus_one == 0 || entry.owner != (owner | kMark)) {
        ++i;
        continue;
      }
      const Allocation holding = unpack(entry.packed, entry.owner);
      if (holding.device_index < bytes.size()) bytes[holding.device_index] += holding.bytes;
      remove(shard, &entry);  // may move a later entry here: look at it next
    }
  }
}

void AllocationTable::forget_after_fork() {
  for (Shard& shard : shards_) {
    shard.lock.reset();
    shard.entries = nullptr;
    shard.capacity = 0;
    shard.count = 0;
  }
}

}  // namespace headgate::limiter
