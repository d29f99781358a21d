// Compares what the driver tells of each process with what the ledgers say: who uses a GPU outside every share, and who
// uses more than its share's ledger knows. Preloading is no wall; this is how a way around it gets a name. Pure.
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
  // What a context, lazily loaded code and slabs may add before the ledger's residual has seen it.
  std::uint64_t memory_slack_bytes = 64ull << 20;
  // A mismatch that is gone at the next look was a reading between two steps: it takes this many looks to be one.
  std::uint32_t looks = 3;
  std::uint64_t least_ns = 1'500'000'000;  // from the first of them to the last: somebody may look more often
  ComputeRules compute = {};               // which has steps of its own instead
  // Programs that use GPUs on everybody's behalf, by ProcessFacts::program: of root's, and of users where such a one of
  // root's started them. NAME@USER: where that user runs it too.
  std::vector<std::string> exempt = {"nvidia-cuda-mps-server",
                                     "nvidia-cuda-mps-control",
                                     "nvidia-persistenced",
                                     "Xorg",
                                     "Xwayland",
                                     "gnome-shell",
                                     "nv-hostengine",
                                     "dcgm-exporter"};
  // What can be seen of how a process goes around its limits, once that is known. Asked until then, from the look
  // before the one at which it may be told; it must not wait for an answer. May be empty.
  std::function<std::optional<std::string>(std::uint32_t pid)> explain;
};

enum class FindingKind { outside, memory, compute };

struct Finding {
  // explained: it was told before, and now it is known how the process goes around. proven: it was told and spared, and
  // now `proven`.
  enum class Update { found, explained, proven };
  FindingKind kind = FindingKind::outside;
  std::uint32_t pid = 0, uid = 0;
  std::uint32_t start_time = 0;            // of the process that was judged (ProcessFacts)
  std::string share;                       // empty: none
  std::optional<std::uint32_t> owner_uid;  // the share's
  std::string uuid;
  std::string text;  // one sentence, with the figures
  Update update = Update::found;
  // The share's ledger was once seen to agree with the driver in what it is now accused of; always of who is in no
  // share. Without that it may be the ledger that cannot know, and nothing should be done but telling. Nor where
  // anything else could explain the difference (explanation.hpp) in any of the steps.
  bool proven = true;
  // Why nothing should be done, half a sentence; empty where it is proven.
  std::string doubt = {};
};

// Whose the share of that name is; none where it is in no such snapshot.
[[nodiscard]] std::optional<std::uint32_t> owner_of(const snapshot::Snapshot& snapshot, const std::string& share);

// "audit.outside", "audit.memory", "audit.compute": of the event that tells of it.
[[nodiscard]] std::string event_kind(FindingKind kind);
// Of the event with the reason, where that was not known in time.
inline constexpr const char* kExplainedEvent = "audit.explained";

class Audit {
 public:
  explicit Audit(AuditRules rules = {}) : rules_(std::move(rules)), compute_(rules_.compute), sum_(rules_.compute) {}

  // Looks at one more snapshot, writes each process's `finding` and the number of the unattended into it, and returns
  // what is new since the last. `facts`, `books`: as the snapshot was made of.
  std::vector<Finding> look(snapshot::Snapshot& snapshot, const std::map<std::uint32_t, ProcessFacts>& facts,
                            const ComputeBooks& books = {});
  // From the next look on.
  void set_exempt(std::vector<std::string> programs) { rules_.exempt = std::move(programs); }
  // Whether a process of that snapshot was exempt.
  [[nodiscard]] bool exempts(std::uint32_t pid) const { return exempt_.contains(pid); }
  // Of the last snapshot, told or not yet.
  [[nodiscard]] std::set<std::uint32_t> suspects() const;

 private:
  struct Case {
    std::uint32_t start_time = 0;
    std::uint32_t looks = 0;
    std::optional<std::uint64_t> since_ns;
    std::optional<std::string> reason;
    bool told = false, seen = false;
    bool proven = false;  // when it was told, or since
  };
  using Key = std::pair<std::uint32_t, FindingKind>;
  struct Suspicion {
    Finding finding;
    std::optional<bool> ripe;  // whether it was so for long enough; empty: by the looks of its case
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
  std::set<std::string> memory_proven_;  // shares whose ledger had once all that the driver told of a process's memory
  std::map<Key, Case> cases_;
  std::set<std::uint32_t> exempt_;
};

}  // namespace headgate::observe
