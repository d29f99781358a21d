// Whether an account says what its slots say: a page that only limiters write always balances, whoever was killed in
// it.
#pragma once

#include <cstdint>

#include "guest/ledger/layout.hpp"

namespace headgate::ledger {

struct Balance {
  bool certain;  // false: the page was being written; look again
  std::uint64_t used_bytes, slots_bytes;
};
// Of one account. Reads only, waits for nothing, and believes no count or index of the page.
Balance balance_of(const UsagePage& page, std::uint32_t account);

}  // namespace headgate::ledger
