// Shared (never private) futex waits: the words live in pages of several processes.
#pragma once

#include <atomic>
#include <cstdint>

namespace headgate::bare {

// Sleeps while *word == expected, at most timeout_ns nanoseconds. Returns at once if it differs; may wake spuriously.
// Never fails: an error is a spurious wake. Restores errno.
void futex_wait(const std::atomic<std::uint32_t>* word, std::uint32_t expected, std::int64_t timeout_ns);

// Sleeps while *first == a and *second == b. timeout_ns INT64_MAX: without end. Before Linux 5.16, which cannot wait
// for two, it returns after a quarter of a second at most. Else as futex_wait.
void futex_wait_either(const std::atomic<std::uint32_t>* first, std::uint32_t a,
                       const std::atomic<std::uint32_t>* second, std::uint32_t b, std::int64_t timeout_ns);

// Wakes everybody who waits on word, at most so many of them, or one. Restores errno.
void futex_wake_all(const std::atomic<std::uint32_t>* word);
void futex_wake(const std::atomic<std::uint32_t>* word, std::uint32_t most);
void futex_wake_one(const std::atomic<std::uint32_t>* word);

}  // namespace headgate::bare
