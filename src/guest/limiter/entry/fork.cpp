// Everything that a fork resets. Each part of the limiter that keeps per-process state adds a line here.
#include "guest/bare/clock.hpp"
#include "guest/ledger/account.hpp"
#include "guest/limiter/compute/compute.hpp"
#include "guest/limiter/compute/copies.hpp"
#include "guest/limiter/compute/turns.hpp"
#include "guest/limiter/entry/timed_section.hpp"
#include "guest/limiter/memory/charge.hpp"
#include "guest/limiter/memory/context_size.hpp"
#include "guest/limiter/memory/context_turn.hpp"
#include "guest/limiter/memory/draining.hpp"
#include "guest/limiter/memory/graph_memory.hpp"
#include "guest/limiter/memory/in_flight_bytes.hpp"
#include "guest/limiter/memory/mapped.hpp"
#include "guest/limiter/memory/memory_thread.hpp"
#include "guest/limiter/memory/pool.hpp"
#include "guest/limiter/memory/residual.hpp"
#include "guest/limiter/memory/slabs.hpp"
#include "guest/limiter/memory/untold.hpp"
#include "guest/limiter/session/current.hpp"
#include "guest/limiter/session/gpu_pages.hpp"
#include "guest/limiter/session/node_page.hpp"
#include "guest/limiter/session/session.hpp"
#include "guest/limiter/stream/captures.hpp"

namespace headgate::limiter {
namespace {

using Reset = void();

// The order matters.
constexpr Reset* kResets[] = {
    session_reset_after_fork,       // first: from here on no hook treats the child as a member
    bare::forget_clock_after_fork,  // the child may be in another time namespace
    contexts_changed,
    node_page_reset_after_fork,
    users_gpu_page_reset_after_fork,
    ledger::reset_locks_after_fork,
    allocations_reset_after_fork,
    slabs_reset_after_fork,
    libraries_reset_after_fork,
    context_size_reset_after_fork,
    context_turn_reset_after_fork,
    mapped_reset_after_fork,
    pools_reset_after_fork,
    graph_memory_reset_after_fork,
    draining_reset_after_fork,
    memory_thread_reset_after_fork,
    presence_reset_after_fork,
    residual_reset_after_fork,
    in_flight_reset_after_fork,
    meter_stops_after_fork,  // before the rest of compute: nothing is metered while it is reset
    forget_captures_after_fork,
    copies_reset_after_fork,
    timed_sections_reset_after_fork,
    turns_reset_after_fork,
    meter_reset_after_fork,
};

}  // namespace

void reset_after_fork() {
  for (Reset* reset : kResets) reset();
}

}  // namespace headgate::limiter
