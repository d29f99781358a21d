// Reads the shares in this user's runtime directory from their pages.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "guest/ledger/pages.hpp"
#include "observe/ledgers.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

struct OwnLedgers {
  std::vector<observe::LedgerSnapshot> list;  // by name
  std::vector<snapshot::Share> broken;        // by name; their pages are unusable, see `problem`
};

// Reaps dead processes first. Empty if the directory does not exist.
[[nodiscard]] OwnLedgers read_own_ledgers(const std::string& base);

// Names the share and, if its pages are unusable, the directory to remove.
[[nodiscard]] Error share_error(const ledger::PageFault& fault, const std::string& base, const std::string& name);

}  // namespace headgate::cli
