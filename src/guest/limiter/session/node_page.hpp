// The driver's figures from the daemon (guest/ledger/node_page.hpp), so that this process need not load NVML.
#pragma once

#include <cstdint>

#include "guest/ledger/account.hpp"

namespace headgate::limiter {

// Maps the page that came with the registration; ignores one that is unusable or already mapped. Does not close `fd`.
void take_node_page(int fd);

// Waits at most kNodePatienceNs for figures measured after this call. Returns false if there is no page, or the daemon
// is gone or silent; then query the driver. Thread-safe; restores errno.
bool fresh_reading();

// Returns whether the daemon reads the driver for us, as last observed.
bool daemon_reads();

// From the last reading. False if it has no figure for this slot or GPU. device_index: index in the pages.
bool told_bytes(ledger::SlotRef slot, std::uint32_t device_index, std::uint64_t& bytes);
bool told_unattributed(std::uint32_t device_index, std::uint64_t& bytes);

// Returns the memory of a context on the card, by the daemon; 0: unknown, or no page.
std::uint64_t told_context_bytes(std::uint32_t device_index);

// Returns the percentage of the GPU's SMs that the share's MPS clients have together; 0: unknown, or one of them (such
// as this process) may have all. One or two relaxed loads.
std::uint32_t told_sm_percent(ledger::SlotRef slot, std::uint32_t device_index);

void node_page_reset_after_fork();

}  // namespace headgate::limiter
