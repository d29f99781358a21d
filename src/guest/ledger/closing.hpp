// The end of a share: how its last process takes it away without a newcomer ending up in pages nobody else can find.
//
// `closing` moves 0 -> mark of somebody who looks whether the share is empty -> 0 (it is not) or 1 (closed for good).
// A claim takes its slot first and looks at `closing` afterwards; the closer sets his mark first and looks at the slots
// afterwards: one of them sees the other.
#pragma once

#include <cstdint>

#include "guest/ledger/layout.hpp"

namespace headgate::ledger {

inline constexpr std::uint64_t kShareOpen = 0;
inline constexpr std::uint64_t kShareClosed = 1;

// Closes an empty share, or finishes what a killed closer began. True if the share is closed for good now.
bool close_if_empty(UsagePage& page);

}  // namespace headgate::ledger
