// How the views call GPUs, processes and parts. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/term/output.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

// "NVIDIA H200" -> "H200".
[[nodiscard]] std::string short_model(const std::string& model);
// "GPU 0", or the beginning of the UUID where the node does not have it.
[[nodiscard]] std::string format_gpu(const snapshot::Snapshot& snapshot, const std::string& uuid);
// The same under a heading that says GPU: "0".
[[nodiscard]] std::string gpu_cell(const snapshot::Snapshot& snapshot, const std::string& uuid);
// Whether the node has that GPU, or slice of one, as far as it is known.
[[nodiscard]] bool is_gpu_of(const snapshot::Snapshot& snapshot, const std::string& uuid);
// "GPU FIGURES ARE OLD", where the daemon has let go of the driver or it does not answer; else empty.
[[nodiscard]] std::string staleness(const snapshot::Snapshot& snapshot);
// Of a snapshot that stands because the daemon makes no newer one: what is wrong, how old it is, what to do. Fits a
// line.
[[nodiscard]] std::string format_old_snapshot(std::uint64_t taken_unix_ns, std::uint64_t now_unix_ns);
// What a view must not keep to itself, each with ", " before it, as a warning: SIMULATED, and staleness().
[[nodiscard]] std::string caveats(const snapshot::Snapshot& snapshot, const Voice& voice);
// The first line of a view that does not say it elsewhere: "level hook, SIMULATED".
[[nodiscard]] std::string stamp(const snapshot::Snapshot& snapshot, const Voice& voice);
// Millionths of a ratio, rounded, for percent_text() and rate_text(); 0 below it, at most a thousand wholes.
[[nodiscard]] std::uint32_t ppm_of(double ratio);
// "30%", "12.5%".
[[nodiscard]] std::string percent_of(double ratio);
// "3 shares of others": those of the node that the snapshot does not show, whose they are not to see; empty: there are
// none.
[[nodiscard]] std::string format_others(const snapshot::Snapshot& snapshot);
// A share's state, with how long it has been idle from a minute on: "throttled", "idle 3h12m".
[[nodiscard]] std::string format_state(const std::string& state, std::uint64_t idle_ns);
// A share's state as far as it is this GPU's, of several: it may wait on one and not on the others. "bypassed" where
// the audit has found one of its programs, as headgate_share_enforcement has it.
[[nodiscard]] std::string state_on(const snapshot::Snapshot& snapshot, const snapshot::Share& share,
                                   const snapshot::ShareDevice& device);
// Of a process that the audit has frozen; in full, and where that is too wide.
inline constexpr const char* kFrozenState = "frozen by the audit";
inline constexpr const char* kFrozenShortState = "frozen by audit";
// What the audit did and how to undo it, for whoever may: two sentences; empty where it has not frozen the process.
[[nodiscard]] std::vector<std::string> format_freeze(const snapshot::Process& process);
// "-" in place of an empty text.
[[nodiscard]] std::string or_dash(const std::string& text);
[[nodiscard]] std::string joined(const std::vector<std::string>& words, const std::string& between);
// "normal, weight 100"; "-" where nobody keeps either.
[[nodiscard]] std::string format_class(const snapshot::ShareDevice& device);
// "promised 50 %, had 32.1 %, wanted 100.0 %, short 17.9 %", of the last 10 s; short only where it is more than 2
// points. "promised nothing"; without figures "promised 50 %".
[[nodiscard]] std::string format_promise(const snapshot::Share& share, const snapshot::ShareDevice& device);
// The numbers of a share's processes, with blanks; of many the first and how many more.
[[nodiscard]] std::string format_pids(const snapshot::Snapshot& snapshot, const std::string& share);
// "1 program", "3 programs".
[[nodiscard]] std::string programs_text(std::uint32_t count);
// The process's number on the host, or in its own namespace where only that is known.
[[nodiscard]] std::uint32_t shown_pid(const snapshot::Process& process);

}  // namespace headgate::cli
