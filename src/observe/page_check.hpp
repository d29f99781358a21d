// Finds in a usage page what no limiter writes there, so that a tenant that scribbles is named. Shares with a page that
// only limiters wrote are never accused, whatever was killed in it.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "guest/ledger/layout.hpp"

namespace headgate::observe {

// Checks one share's page; keep one for each share from look to look.
class PageCheck {
 public:
  // Returns what is wrong, as half a sentence with the figures ("says that it has 7 devices, and has 1"); empty if
  // nothing is. `card_bytes`: the memory of the share's largest GPU, 0 if unknown. `now_ns`: of a monotonic clock.
  // Reads only, and trusts no count or index of the page. Not thread-safe.
  [[nodiscard]] std::string look(const ledger::PolicyPage& policy, const ledger::UsagePage& usage,
                                 std::uint64_t card_bytes, std::int64_t now_ns);

 private:
  // Bytes are moved in steps, so an account that disagrees with its slots is a lie only if it lasts.
  struct Imbalance {
    std::int64_t since_ns = 0;
    std::uint32_t looks = 0;
  };
  std::array<Imbalance, ledger::kMaxDevices> imbalances_{};
};

}  // namespace headgate::observe
