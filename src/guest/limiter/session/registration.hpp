// Joining a share through the daemon's tenant socket (guest/ledger/registration.hpp), instead of by opening its files.
#pragma once

#include <span>

#include "guest/ledger/pages.hpp"
#include "guest/ledger/registration.hpp"

namespace headgate::limiter {

enum class Registered : std::uint32_t {
  seated,  // `pages` are mapped, checked, and a slot is claimed if one was wanted
  refused,  // `why` is a sentence: the daemon said no, or sent what cannot be used; the share is gone; this process lacks what
            // it takes to ask (descriptors, memory, a right), which is no sign that there is no daemon
  unreachable,  // no daemon listened within 200 ms or answered within 2 s, or there is no runtime directory; `why` says what was tried
};

// `directory`: where the share's directory lies for us, such as /run/headgate/shares/NAME. Takes at most 2.2 s; keeps
// no descriptor but the doorbell's. Restores errno.
Registered register_at(const char* directory, bool with_slot, ledger::SharePages& pages, ledger::SlotRef& slot,
                       std::span<char> why);

// Tells the daemon that this share wants to be looked at. Does nothing where there is no daemon or the program has
// closed our descriptor: it is never taken for one of the program's own. Two system calls, never waits; thread-safe.
void ring_doorbell(ledger::Ring what);
// There is none, or whoever handed it out is gone: at the last ring nobody could hear it.
bool doorbell_is_dead();
// The same by a look at our end, without a ring. Two system calls; thread-safe.
bool daemon_hung_up();
// Asks whatever daemon is there now for another, with which come its pages of the GPUs. At most once in 100 ms, less
// and less often where the same daemon refuses, or hands out what is shut down again (renewal_pause.hpp), and each time
// for 20 ms at most; thread-safe.
void renew_doorbell();

// Whether the daemon has ended and no other listens: our bell hung up or was never there, and the share's socket
// accepts no connection. A daemon that is stopped or busy is there. Asks for another bell where ours is no good, at the
// pace of renew_doorbell(); answers by the last such request until the next. False where the share's directory is not
// known. Three system calls, and what renew_doorbell() takes; of one thread at a time.
bool daemon_is_gone();

// Asks the daemon for a new reading of the driver (guest/ledger/node_page.hpp). False: nobody hears it. As
// ring_doorbell().
bool ask_for_reading();

}  // namespace headgate::limiter
