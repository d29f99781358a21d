// Shared (never private) futex waits: the words are in pages that several processes map.
#pragma once

#include <atomic>
#include <cstdint>

namespace headgate::bare {

// Sleeps while *word == expected, at most timeout_ns nanoseconds. Returns at once if it differs; may wake spuriously.
// Never fails: an error counts as a spurious wake. Restores errno.
void futex_wait(const std::atomic<std::uint32_t>* word, std::uint32_t expected, std::int64_t timeout_ns);

// Sleeps while *first == a and *second == b; INT64_MAX means no timeout. Before Linux 5.16, which cannot wait for two
// words, returns after 250 ms at most. Otherwise like futex_wait.
void futex_wait_either(const std::atomic<std::uint32_t>* first, std::uint32_t a,
                       const std::atomic<std::uint32_t>* second, std::uint32_t b, std::int64_t timeout_ns);

// Wakes all waiters of word, at most `most`, or one. Restores errno.
void futex_wake_all(const std::atomic<std::uint32_t>* word);
void futex_wake(const std::atomic<std::uint32_t>* word, std::uint32_t most);
void futex_wake_one(const std::atomic<std::uint32_t>* word);

}  // namespace headgate::bare
