// Finds in a usage page what no limiter writes there, so that a tenant that scribbles has a name. Shares whose page was
// written by limiters alone are never accused, whatever was killed in it.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "guest/ledger/layout.hpp"

namespace headgate::observe {

// Of one share's page; one a share, kept from look to look.
class PageCheck {
 public:
  // What is wrong, as half a sentence with the figures ("says that it has 7 devices, and has 1"); empty where nothing
  // is. `card_bytes`: the memory of the largest GPU of the node, 0 where it is not known. `now_ns`: of a clock that
  // only goes on. Reads only, and believes no count or index of the page. Not thread-safe.
  [[nodiscard]] std::string look(const ledger::PolicyPage& policy, const ledger::UsagePage& usage,
                                 std::uint64_t card_bytes, std::int64_t now_ns);

 private:
  // An account that disagrees with its slots is a lie only if it goes on: bytes are moved in steps.
  struct Imbalance {
    std::int64_t since_ns = 0;
    std::uint32_t looks = 0;
  };
  std::array<Imbalance, ledger::kMaxDevices> imbalances_{};
};

}  // namespace headgate::observe
