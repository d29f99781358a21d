#include "guest/ledger/closing.hpp"

#include <time.h>
#include <unistd.h>

#include "guest/bare/clock.hpp"
#include "guest/ledger/packing.hpp"
#include "guest/ledger/slot.hpp"

namespace headgate::ledger {
namespace {

// Returns a mark that differs from those of all other attempts, and from open and closed.
std::uint64_t fresh_mark() {
  return std::uint64_t{static_cast<std::uint32_t>(::getpid())} << 32 |
         (static_cast<std::uint32_t>(bare::now_ns()) | 2u);
}

}  // namespace

bool close_if_empty(UsagePage& page) {
  reap_dead(page);
  std::uint64_t mark = page.closing.load(std::memory_order_seq_cst);
  if (mark == kShareClosed) return true;
  if (mark == kShareOpen) {
    if (live_slots(page) != 0) return false;
    mark = fresh_mark();
    if (!swap(page.closing, kShareOpen, mark, "close: mark")) return false;
  }
  // `mark` may be from a closer that was killed: answer for it.
  const bool empty = live_slots(page) == 0;
  swap(page.closing, mark, empty ? kShareClosed : kShareOpen, "close: answer");
  return page.closing.load(std::memory_order_seq_cst) == kShareClosed;
}

}  // namespace headgate::ledger
