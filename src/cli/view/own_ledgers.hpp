// The shares that lie in this user's runtime directory, read from their pages.
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
  std::vector<snapshot::Share> broken;        // by name; their pages cannot be used, `problem` says why
};

// Reaps the dead first. Nothing where the directory does not exist.
[[nodiscard]] OwnLedgers read_own_ledgers(const std::string& base);

// Names the share, and for pages that nobody can use any more, the directory to remove.
[[nodiscard]] Error share_error(const ledger::PageFault& fault, const std::string& base, const std::string& name);

}  // namespace headgate::cli
