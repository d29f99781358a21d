// Joins a share through the daemon's tenant socket (guest/ledger/registration.hpp), not by opening its files.
#pragma once

#include <span>

#include "guest/ledger/pages.hpp"
#include "guest/ledger/registration.hpp"

namespace headgate::limiter {

enum class Registered : std::uint32_t {
  seated,       // `pages` are mapped and checked, and a slot is claimed if one was requested
  refused,      // `why` is a sentence: the daemon refused or sent unusable data; the share
                // is gone; or this process lacks a resource or permission, which does not mean that there is no daemon
  unreachable,  // no daemon listened (200 ms) or answered (2 s), or no runtime directory; see `why`
};

// `directory`: path of the share's directory, such as /run/headgate/shares/NAME. Takes at most 2.2 s; keeps no
// descriptor except the doorbell. Restores errno.
Registered register_at(const char* directory, bool with_slot, ledger::SharePages& pages, ledger::SlotRef& slot,
                       std::span<char> why);

// Tells the daemon to look at this share. Does nothing without a daemon, or if the program closed our descriptor; never
// mistakes the program's descriptor for it. Two system calls, never waits; thread-safe.
void ring_doorbell(ledger::Ring what);
// Returns whether there is none, or its daemon is gone: nothing received the last ring.
bool doorbell_is_dead();
// Checks the same on our end, without a ring. Two system calls; thread-safe.
bool daemon_hung_up();
// Requests another bell from the current daemon, with its GPU pages. At most once in 100 ms, and less often if the same
// daemon refuses or its bells are shut down again; takes at most 20 ms; thread-safe.
void renew_doorbell();

// The time between requests for a doorbell. A bell is replaced because its daemon died, and a new one comes soon. Or
// another process of the share keeps shutting down its bells, which must not cost the others anything.
inline constexpr std::int64_t kFirstRenewalPauseNs = 100'000'000, kLongestRenewalPauseNs = 3'200'000'000;

// For an answer `since_last_ns` after the previous one. A bell that worked for a while was not shut down by others.
constexpr std::int64_t next_renewal_pause_ns(std::int64_t pause_ns, std::int64_t since_last_ns) {
  if (since_last_ns > 2 * kLongestRenewalPauseNs) return kFirstRenewalPauseNs;
  return 2 * pause_ns < kLongestRenewalPauseNs ? 2 * pause_ns : kLongestRenewalPauseNs;
}

// Returns whether the daemon has ended and no other listens: our bell hung up or never existed, and the share's socket
// accepts no connection. A stopped or busy daemon still counts. Requests another bell if ours is unusable, at the pace
// of renew_doorbell(), and answers by the last request. False if the share's directory is unknown. Three system calls
// plus renew_doorbell(); one thread at a time.
bool daemon_is_gone();

// Asks the daemon for a new reading of the driver (guest/ledger/node_page.hpp). False if nothing receives it. Like
// ring_doorbell().
bool ask_for_reading();

}  // namespace headgate::limiter
