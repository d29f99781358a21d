// Effects of commands on memory: copies, fills, flag words. The owning process applies them after the simulated GPU has
// executed the command and before any call can observe that. Host functions run on a separate thread.
#pragma once

#include <functional>

#include "sim/driver/library.hpp"

namespace headgate::sim::driver {

// Runs `act` when command `number` of the stream is complete. The caller has held the context's lock since the push.
void add_payload(Stream* stream, std::uint64_t number, std::function<void()> act);
// Runs what is due, in order of submission. Costs one load if nothing waits.
void run_due_payloads();
[[nodiscard]] bool payloads_pending();

// Submits a host function. It receives the error with which a kernel ended the context before then, or SUCCESS.
CUresult submit_host_function(Stream* stream, std::function<void(CUresult)> act);
// The caller holds the context's lock.
CUresult submit_host_function_locked(Stream* stream, std::function<void(CUresult)> act);

// cuda.h: after its context ended in an error, a host function is not called; a callback is, with the error.
template <typename Act>
std::function<void(CUresult)> unless_failed(Act act) {
  return [act](CUresult status) {
    if (status == CUDA_SUCCESS) act();
  };
}

// Calls it on the thread of host functions, independent of any stream.
void run_on_host_thread(std::function<void()> act);

// Returns the node's flag for a wait or set parameter; kNone if there is no room. A value below 2^32 that is no device
// address of this process is the number of a node-wide flag. Any other value is the address of a word (64 bits if
// memory has as many), which is kept equal to the flag.
[[nodiscard]] std::uint32_t flag_of(std::uint64_t value, bool* word_in_memory);
// Called after memory was written: updates the flags of words in it, except the one at `except`, which the engine has
// set.
void refresh_flags(std::uint64_t address, std::uint64_t bytes, std::uint64_t except = 0);
// Updates flags in host memory from what the CPU stored there. Called wherever the program waits or polls; costs one
// load if there is none.
void look_at_host_words();
[[nodiscard]] bool memory_flags_in_use();

}  // namespace headgate::sim::driver
