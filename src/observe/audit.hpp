// Compares what the driver says of each process with the ledgers. Names processes that use a GPU outside every share,
// or use more than their share's ledger knows. Preloading can be bypassed; this makes a bypass visible. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "observe/compute_check.hpp"
#include "observe/join.hpp"
#include "observe/share_sum.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::observe {

struct AuditRules {
  // What a context, lazily loaded code and slabs may add before they are in the ledger's residual.
  std::uint64_t memory_slack_bytes = 64ull << 20;
  // One look may fall between two steps of a program: only after this many in a row is a mismatch one.
  std::uint32_t looks = 3;
  std::uint64_t least_ns = 1'500'000'000;  // from the first of them to the last: a client may request looks
  ComputeRules compute = {};               // has steps instead of looks
  // Programs that use GPUs for all users, by ProcessFacts::program: run by root, or by a user if one of root's programs
  // in this list started them. NAME@USER: also if that user runs it.
  std::vector<std::string> exempt = {"nvidia-cuda-mps-server",
                                     "nvidia-cuda-mps-control",
                                     "nvidia-persistenced",
                                     "Xorg",
                                     "Xwayland",
                                     "gnome-shell",
                                     "nv-hostengine",
                                     "dcgm-exporter"};
  // Returns what can be seen of how a process goes around its limits, once that is known. Called until then, from the
  // look before the one at which the finding may be reported; it must not wait for an answer. May be empty.
  std::function<std::optional<std::string>(std::uint32_t pid)> explain;
};

enum class FindingKind { outside, memory, compute };

struct Finding {
  // explained: it was reported before, and now it is known how the process goes around. proven: it was reported but not
  // acted on, and is now `proven`.
  enum class Update { found, explained, proven };
  FindingKind kind = FindingKind::outside;
  std::uint32_t pid = 0, uid = 0;
  std::uint32_t start_time = 0;            // of the judged process (ProcessFacts)
  std::string share;                       // empty: none
  std::optional<std::uint32_t> owner_uid;  // the share's
  std::string uuid;
  std::string text;  // one sentence, with the figures
  Update update = Update::found;
  // The share's ledger was once seen to agree with the driver in what it is now accused of; always true outside shares.
  // Otherwise the ledger may be unable to know, and the finding should only be reported. False too if anything else
  // could explain the difference (compute_check.hpp) in any of the steps.
  bool proven = true;
  // Why it should only be reported, as half a sentence; empty if it is proven.
  std::string doubt = {};
};

// Returns the owner of the share of that name; none if the snapshot has no such share.
[[nodiscard]] std::optional<std::uint32_t> owner_of(const snapshot::Snapshot& snapshot, const std::string& share);

// Returns the kind of the event that reports it: "audit.outside", "audit.memory" or "audit.compute".
[[nodiscard]] std::string event_kind(FindingKind kind);
// The kind of the event with the reason, if that was not known in time.
inline constexpr const char* kExplainedEvent = "audit.explained";

class Audit {
 public:
  explicit Audit(AuditRules rules = {}) : rules_(std::move(rules)), compute_(rules_.compute), sum_(rules_.compute) {}

  // Looks at one more snapshot, writes each process's `finding` and the number of unattended processes into it, and
  // returns what is new since the last. `facts`, `books`: what the snapshot was made from.
  std::vector<Finding> look(snapshot::Snapshot& snapshot, const std::map<std::uint32_t, ProcessFacts>& facts,
                            const ComputeBooks& books = {});
  // Takes effect at the next look.
  void set_exempt(std::vector<std::string> programs) { rules_.exempt = std::move(programs); }
  // Returns whether a process of that snapshot was exempt.
  [[nodiscard]] bool exempts(std::uint32_t pid) const { return exempt_.contains(pid); }
  // Returns those of the last snapshot, reported or not.
  [[nodiscard]] std::set<std::uint32_t> suspects() const;

 private:
  struct Case {
    std::uint32_t start_time = 0;
    std::uint32_t looks = 0;
    std::optional<std::uint64_t> since_ns;
    std::optional<std::string> reason;
    bool told = false, seen = false;
    bool proven = false;  // when it was reported, or since
  };
  using Key = std::pair<std::uint32_t, FindingKind>;
  struct Suspicion {
    Finding finding;
    std::optional<bool> ripe;  // whether it lasted long enough; empty: by the looks of its case
  };

  [[nodiscard]] bool is_exempt(const ProcessFacts& facts) const;
  void look_at(const snapshot::Snapshot& snapshot, const snapshot::Process& process,
               const snapshot::ProcessDevice& device, std::vector<Suspicion>& found);
  void suspect(const snapshot::Snapshot& snapshot, const snapshot::Process& process, FindingKind kind,
               const std::string& uuid, std::string text, std::vector<Suspicion>& found, std::optional<bool> ripe = {},
               bool certain = true);
  [[nodiscard]] bool is_proven(FindingKind kind, const std::string& share) const;

  AuditRules rules_;
  ComputeCheck compute_;
  ShareSum sum_;
  std::set<std::string> memory_proven_;  // shares with a ledger that once had all of a process's memory
  std::map<Key, Case> cases_;
  std::set<std::uint32_t> exempt_;
};

}  // namespace headgate::observe
