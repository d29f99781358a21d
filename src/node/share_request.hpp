// A request for a share in the grammar of the command ("8GiB", "50%", "40TFLOPS", "2h"), and its conversion to the
// share that the node keeps. Pure: the cards are arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "node/user_directory.hpp"
#include "snapshot/snapshot.hpp"
#include "tenancy/admission.hpp"
#include "tenancy/share.hpp"

namespace headgate::node {

// An empty field was not requested: a new share takes the default, an existing one keeps its value.
struct ShareRequest {
  std::optional<std::string> name;
  std::optional<std::string> gpu;                             // a selector: "0", "0,2-3", "GPU-9c", "all", "auto"
  std::optional<std::string> mem;                             // of each GPU; "none": no limit
  std::optional<std::string> host_mem;                        // host memory beyond it
  std::optional<std::string> compute;                         // promised; also the ceiling if the share has no burst
  std::optional<std::string> burst;                           // ceiling above what is promised; "none"
  std::optional<std::string> weight;                          // 1..1000
  std::optional<std::string> priority_class;                  // best-effort, normal, latency
  std::optional<std::string> ttl, idle_notice, freeze_after;  // "8h"; "none"
  std::optional<std::string> admit;                           // now, ask
  std::optional<std::string> fail_policy;                     // open, closed
  std::optional<std::string> on_oom;                          // fail, wait, wait=5m
  std::optional<std::string> gang;                            // a name; "none"
  std::optional<std::string> isolation;                       // hook, mps, timeslice
  std::optional<bool> overcommit, oversubscribe, everyone;
  bool void_promises = false;       // no property of the share: the caller accepts a promise that will not be kept
  std::optional<bool> until_empty;  // it is removed with its last process
  std::optional<std::vector<std::string>> users, groups;  // names or numbers; {"none"}

  friend bool operator==(const ShareRequest&, const ShareRequest&) = default;
};

// Returns the share that `order` asks for, on top of `before` (null: a new one; it needs a name, and its GPU is "auto"
// by default). The caller fills in owner and times. Errors: usage, naming key, value and accepted forms; unsupported
// (TFLOPS of a card that is not in the table, MIG).
[[nodiscard]] Result<tenancy::Share> share_of(const ShareRequest& order, const tenancy::Share* before,
                                              const std::vector<snapshot::Gpu>& gpus, const UserDirectory& directory);

// Moves to host memory, on top of `host_mem`, what an oversubscribed share's `mem` has beyond what one share can have
// of its card. A `mem` without a `host_mem` is all that its programs see.
void lay_past_the_card(const ShareRequest& order, const std::vector<tenancy::Card>& cards,
                       const tenancy::Reserve& reserve, tenancy::Share& share);

// The largest uid and gid; the number above it is "no user" to the kernel (chown(2)).
inline constexpr std::uint32_t kMaxId = 4'294'967'294;

// How long an allocation without room waits if --on-oom=wait gives no time; and the longest time accepted.
inline constexpr std::chrono::seconds kDefaultOomWait{30}, kLongestOomWait{3600};

// Parses "90s", "5m", "2h" or "7d". Errors: usage.
[[nodiscard]] Result<std::chrono::seconds> parse_duration(const std::string& key, const std::string& text);

// Millionths of `gpu`'s time for "50%", "0.5", "500m" or "40TFLOPS" (dense FP16, see cards.hpp).
[[nodiscard]] Result<std::uint32_t> compute_from(const std::string& key, const std::string& text,
                                                 const snapshot::Gpu& gpu);

}  // namespace headgate::node
