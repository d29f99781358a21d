// The driver's figures as the daemon tells them (guest/ledger/node_page.hpp), so that this process need not load NVML.
#pragma once

#include <cstdint>

#include "guest/ledger/account.hpp"

namespace headgate::limiter {

// Maps the page that came with the registration; one that cannot be used, or is mapped already, is left alone. Closes
// nothing.
void take_node_page(int fd);

// Waits, for kNodePatienceNs at most, until figures stand in the page that are true of a moment after this call. False:
// there is no page, or the daemon is gone or silent; then the driver is to be asked. Thread-safe; restores errno.
bool fresh_reading();

// Whether the daemon watches the driver for us, as far as was seen.
bool daemon_reads();

// Of the last reading. False: it says nothing of this slot, or of this GPU. device_index: of the pages.
bool told_bytes(ledger::SlotRef slot, std::uint32_t device_index, std::uint64_t& bytes);
bool told_unattributed(std::uint32_t device_index, std::uint64_t& bytes);

// What a context takes of the card, by the daemon; 0: it does not know, or there is none.
std::uint64_t told_context_bytes(std::uint32_t device_index);

// Of the GPU's SMs, what the share's processes have together as clients of an MPS server; 0: not known, or one of them,
// this one for instance, may have all. One or two relaxed loads.
std::uint32_t told_sm_percent(ledger::SlotRef slot, std::uint32_t device_index);

void node_page_reset_after_fork();

}  // namespace headgate::limiter
