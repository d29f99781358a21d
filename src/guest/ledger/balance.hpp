// Checks that an account equals the sum of its slots. A page that only limiters write always balances, whichever
// process was killed in it.
#pragma once

#include <cstdint>

#include "guest/ledger/layout.hpp"

namespace headgate::ledger {

struct Balance {
  bool certain;  // false: the page was being written; try again
  std::uint64_t used_bytes, slots_bytes;
};
// Checks one account. Only reads, never waits, and trusts no count or index of the page.
Balance balance_of(const UsagePage& page, std::uint32_t account);

}  // namespace headgate::ledger
