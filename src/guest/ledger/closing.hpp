// The end of a share: its last process removes it without leaving a new one in pages that no other process can find.
//
// `closing` moves 0 -> mark of a process that checks whether the share is empty -> 0 (it is not) or 1 (closed for
// good). A claim takes its slot, then looks at `closing`; a closer sets its mark, then looks at the slots. One sees the
// other.
#pragma once

#include <cstdint>

#include "guest/ledger/layout.hpp"

namespace headgate::ledger {

inline constexpr std::uint64_t kShareOpen = 0;
inline constexpr std::uint64_t kShareClosed = 1;

// Closes an empty share, or finishes for a closer that was killed. Returns true if the share is now closed for good.
bool close_if_empty(UsagePage& page);

}  // namespace headgate::ledger
