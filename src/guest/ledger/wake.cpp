#include "guest/ledger/wake.hpp"

#include "guest/bare/futex.hpp"

namespace headgate::ledger {

void wake(const std::atomic<std::uint32_t>& word, std::uint32_t most) { bare::futex_wake(&word, most); }

}  // namespace headgate::ledger
