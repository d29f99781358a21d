// A share that exists now: its row, its pages, and what has been noted of both.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "guest/ledger/pages.hpp"
#include "tenancy/admission.hpp"
#include "tenancy/run_clients.hpp"
#include "tenancy/share.hpp"
#include "tenancy/share_pages.hpp"

namespace headgate::tenancy {

// Returns the command in a share's page: what its owner said, plus drain once its time is over. A pause stays: no clock
// resumes programs that a user has paused.
[[nodiscard]] constexpr ledger::Command command_in_force(ledger::Command said, bool time_over) {
  return time_over ? said | ledger::Command::drain : said;
}

// By UUID, where a limit was lowered: the most that was committed to the share before. A tenant can write any figure
// into its account, so what it holds never counts for more than that.
using CommittedBefore = std::map<std::string, std::uint64_t>;

struct LiveShare {
  Share share;
  std::unique_ptr<Pages> pages;  // null if `broken` is set
  std::optional<Error> broken;   // pages of another version, damaged, or gone: still counted, cannot be entered
  std::uint64_t generation = 0;  // of the pages
  ledger::Command said = ledger::Command::run;  // by its owner since it was resumed, as stored
  bool time_over = false;                       // as last given to Shares::set_time_over()
  std::string damage;                           // found in the usage page though no limiter writes it; empty: nothing
  std::vector<Run> runs;                        // commands that wait in it; some may have ended
  CommittedBefore committed_before;
  std::string accusation;  // like `damage`, but found by Processes; a sentence without its subject

  // Returns whether its account is worthless: a tenant has written there, or shortened the page.
  [[nodiscard]] bool distrusted() const;
  [[nodiscard]] bool paused() const;
};

// Returns what the programs of a live share hold past the limits of `share`, at most what was committed before.
[[nodiscard]] std::vector<Excess> past_limits(const Share& share, const LiveShare& live,
                                              const CommittedBefore& committed_before);

// Returns what was committed before to an adopted share. The previous limit is unknown after a restart, so what its
// processes hold now is counted. What they hold within the room for contexts is kept beside each share anyway.
[[nodiscard]] CommittedBefore committed_by_account(const LiveShare& live, const std::vector<Card>& cards,
                                                   const Reserve& reserve);
// Returns what will have been committed before, once the share has become `wanted`.
[[nodiscard]] CommittedBefore committed_before_change(const LiveShare& live, const Share& wanted,
                                                      const std::vector<Card>& cards, const Reserve& reserve);

}  // namespace headgate::tenancy
