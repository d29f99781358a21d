// Converts a request for a share to the share that the node keeps. Pure: the cards are arguments.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "node/user_directory.hpp"
#include "snapshot/share_request.hpp"
#include "snapshot/snapshot.hpp"
#include "tenancy/admission.hpp"
#include "tenancy/share.hpp"

namespace headgate::node {

using snapshot::ShareRequest;

// A change of the share of that name.
using NamedRequest = std::pair<std::string, ShareRequest>;

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

// Millionths of `gpu`'s time for "50%", "0.5", "500m" or "40TFLOPS" (dense FP16, see base/gpu_throughput.hpp).
[[nodiscard]] Result<std::uint32_t> compute_from(const std::string& key, const std::string& text,
                                                 const snapshot::Gpu& gpu);

}  // namespace headgate::node
