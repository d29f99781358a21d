// What a command does to memory, done by the owning process once the simulated GPU has executed the command and before
// any call can observe that: copies, fills, flag words. And host functions, which run on a thread of their own.
#pragma once

#include <functional>

#include "sim/driver/library.hpp"

namespace headgate::sim::driver {

// `act` is to run when command `number` of the stream is complete. The caller holds the context's lock since the push.
void add_payload(Stream* stream, std::uint64_t number, std::function<void()> act);
// Runs what is due, in the order of submission. One load when nothing waits.
void run_due_payloads();
[[nodiscard]] bool payloads_pending();

// Submits a host function.
CUresult submit_host_function(Stream* stream, std::function<void()> act);
CUresult submit_host_function_locked(Stream* stream, std::function<void()> act);  // the caller holds the context's lock

// The node's flag for the value of a wait or set parameter: a number below 2^32 that is no device address of ours is a
// node-wide flag; else it is the word at that address, of 64 bits where memory holds so many, which is kept in step with the flag. kNone: no room.
[[nodiscard]] std::uint32_t flag_of(std::uint64_t value, bool* word_in_memory);
// After memory was written: flags that lie in it take the words' values; but the one of address `except`, whose value the engine set.
void refresh_flags(std::uint64_t address, std::uint64_t bytes, std::uint64_t except = 0);
[[nodiscard]] bool memory_flags_in_use();

}  // namespace headgate::sim::driver
