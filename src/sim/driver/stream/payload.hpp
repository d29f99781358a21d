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

// Submits a host function. It is told the error with which a kernel has ended the context by then, or SUCCESS.
CUresult submit_host_function(Stream* stream, std::function<void(CUresult)> act);
CUresult submit_host_function_locked(Stream* stream,
                                     std::function<void(CUresult)> act);  // the caller holds the context's lock

// cuda.h: a host function is not called once the context has ended in an error; a callback is, with the error.
template <typename Act>
std::function<void(CUresult)> unless_failed(Act act) {
  return [act](CUresult status) {
    if (status == CUDA_SUCCESS) act();
  };
}

// Calls it on the thread of host functions, behind no stream.
void run_on_host_thread(std::function<void()> act);

// The node's flag for the value of a wait or set parameter: a number below 2^32 that is no device address of ours is a
// node-wide flag; else it is the word at that address, of 64 bits where memory holds so many, which is kept in step
// with the flag. kNone: no room.
[[nodiscard]] std::uint32_t flag_of(std::uint64_t value, bool* word_in_memory);
// After memory was written: flags that lie in it take the words' values; but the one of address `except`, whose value
// the engine set.
void refresh_flags(std::uint64_t address, std::uint64_t bytes, std::uint64_t except = 0);
// Flags in host memory take what the processor has stored there. Called wherever the program waits or asks; one load
// without any.
void look_at_host_words();
[[nodiscard]] bool memory_flags_in_use();

}  // namespace headgate::sim::driver
