// Names of GPUs, processes and values in the views. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/joined.hpp"
#include "cli/term/output.hpp"
#include "snapshot/gpu_name.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

using snapshot::short_model;
// Returns the row whose `member` is `key`; null if there is none.
template <typename Row>
[[nodiscard]] const Row* find_row(const std::vector<Row>& rows, const auto& key, auto member) {
  const auto found = std::ranges::find(rows, key, member);
  return found == rows.end() ? nullptr : &*found;
}
[[nodiscard]] inline const snapshot::Gpu* find_gpu(const snapshot::Snapshot& snapshot, const std::string& uuid) {
  return find_row(snapshot.gpus, uuid, &snapshot::Gpu::uuid);
}
[[nodiscard]] inline const snapshot::Share* find_share(const snapshot::Snapshot& snapshot, const std::string& name) {
  return find_row(snapshot.shares, name, &snapshot::Share::name);
}
// Whether the process or the share has that GPU.
[[nodiscard]] bool is_on_gpu(const auto& of, const std::string& uuid) {
  return std::ranges::any_of(of.devices, [&](const auto& device) { return device.uuid == uuid; });
}
// "GPU 0", or the beginning of the UUID where the node does not have it.
[[nodiscard]] std::string format_gpu(const snapshot::Snapshot& snapshot, const std::string& uuid);
// The same for a column with the heading GPU: "0".
[[nodiscard]] std::string gpu_cell(const snapshot::Snapshot& snapshot, const std::string& uuid);
// Returns true if the node has that GPU or MIG slice, as far as is known.
[[nodiscard]] bool is_gpu_of(const snapshot::Snapshot& snapshot, const std::string& uuid);
// Returns "GPU FIGURES ARE OLD" if the daemon has released the driver or the driver does not answer; else empty.
[[nodiscard]] std::string staleness(const snapshot::Snapshot& snapshot);
// For a snapshot that is old because the daemon makes no newer one: the cause, its age and what to do, in one line.
[[nodiscard]] std::string format_old_snapshot(std::uint64_t taken_unix_ns, std::uint64_t now_unix_ns);
// Returns the mandatory warnings, each with ", " before it: SIMULATED, and staleness().
[[nodiscard]] std::string caveats(const snapshot::Snapshot& snapshot, const Voice& voice);
// Whether a level holds less than the preloaded limiter does. A view names a level only then.
[[nodiscard]] bool is_weak(const std::string& level);
// The first line of a view: what a reader has to know about all of it ("level observe, SIMULATED"). Often empty.
[[nodiscard]] std::string stamp(const snapshot::Snapshot& snapshot, const Voice& voice);
// Returns a ratio in millionths, rounded, for percent_text() and rate_text(); clamped to 0..1000 wholes.
[[nodiscard]] std::uint32_t ppm_of(double ratio);
// "30%", "12.5%".
[[nodiscard]] std::string percent_of(double ratio);
// "3 shares of others": shares that the snapshot omits because the caller may not see them; empty if there are none.
[[nodiscard]] std::string format_others(const snapshot::Snapshot& snapshot);
// A share's state in words, with the idle time from one minute on: "at limit", "shares GPU", "idle 3h12m".
[[nodiscard]] std::string format_state(const std::string& state, std::uint64_t idle_ns);
// A share's state as far as it is this GPU's, of several: it may wait on one and not on the others. "bypassed" where
// the audit has found one of its programs, as headgate_share_enforcement has it; "starved" if its promise is not kept.
[[nodiscard]] std::string state_on(const snapshot::Snapshot& snapshot, const snapshot::Share& share,
                                   const snapshot::ShareDevice& device);
// The state of a process that the audit froze; in full, and for narrow columns.
inline constexpr const char* kFrozenState = "frozen by the audit";
inline constexpr const char* kFrozenShortState = "frozen by audit";
// Returns two sentences for users that may undo it: what the audit did and how; empty if the process is not frozen.
[[nodiscard]] std::vector<std::string> format_freeze(const snapshot::Process& process);
// Returns "-" for an empty text.
[[nodiscard]] std::string or_dash(const std::string& text);
// "normal, weight 100"; "-" without an arbiter.
[[nodiscard]] std::string format_class(const snapshot::ShareDevice& device);
// What its launches waited for in the last second: "waits 57 % turn, 42 % own queue"; "waits 0 %".
[[nodiscard]] std::string format_waits(const snapshot::ShareDevice& device);
// "promised 50 %, had 32.1 %, wanted 100.0 %, short 17.9 %": figures of the last 10 s; "short" appears only above 2
// points. Without figures: "promised 50 %". Without a promise: "promised nothing".
[[nodiscard]] std::string format_promise(const snapshot::Share& share, const snapshot::ShareDevice& device);
// Returns the PIDs of a share's processes, separated by blanks; of many, the first ones and how many more.
[[nodiscard]] std::string format_pids(const snapshot::Snapshot& snapshot, const std::string& share);
// "1 program", "3 programs".
[[nodiscard]] std::string programs_text(std::uint32_t count);
// Returns the process's PID on the host, or in its own namespace if only that is known.
[[nodiscard]] std::uint32_t shown_pid(const snapshot::Process& process);

}  // namespace headgate::cli
