// The state of `headgate top` (data and the user's choices), how a snapshot or a key changes it, and the rows of its
// table. Pure, but for sending signals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "cli/top/keys.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

enum class TopView { share, gpu, user, process };
enum class TopSort { name, owner, gpu, memory, compute, waited, refusals, idle, state };
enum class TopPreset { all, table, gpus };  // which parts a frame shows
enum class TopMode { table, details, help, filter, limits, signal };

inline constexpr std::size_t kTopHistory = 120;  // snapshots
inline constexpr std::size_t kTopEvents = 200;

// Values of 0 to 1, newest last, by history_key() or a GPU's UUID.
using TopHistory = std::map<std::string, std::vector<double>>;
[[nodiscard]] std::string history_key(const std::string& share, const std::string& uuid);

// New limits for a share, as typed: arguments of `share set` ("mem=12GiB compute=50%").
struct LimitsWish {
  std::string share;
  std::vector<std::pair<std::string, std::string>> values;
  friend bool operator==(const LimitsWish&, const LimitsWish&) = default;
};

// A signal for processes that a snapshot showed.
struct SignalWish {
  struct To {
    std::uint32_t pid = 0;
    std::string command, user;
    std::uint64_t seen_unix_ns = 0;  // time of the snapshot in which the user chose it
    friend bool operator==(const To&, const To&) = default;
  };
  std::vector<To> to;
  int number = 0;
  friend bool operator==(const SignalWish&, const SignalWish&) = default;
};

struct TopState {
  // Data.
  std::optional<snapshot::Snapshot> now;  // none before the first snapshot
  bool daemon = false;
  std::string pid_space;  // of this process: signals go nowhere else
  std::string trouble;    // why there is no newer snapshot, or what it lacks
  TopHistory held, memory;
  std::vector<snapshot::Event> events;  // oldest first

  // Choices of the user.
  TopView view = TopView::share;
  TopSort sort = TopSort::name;
  TopMode mode = TopMode::table;
  TopPreset preset = TopPreset::all;
  bool reverse = false, tree = false, paused = false, readonly = false;
  std::string selected;  // key of a row; if it matches none, the first row
  std::string filter, user;
  int help_from = 0;                              // lines of the help page scrolled past the top
  std::map<std::uint32_t, std::uint64_t> tagged;  // host PIDs, each with its snapshot's time
  bool lost_tags = false;                         // tagged processes have ended
  std::string typed;                              // in modes filter, limits and signal
  // Targets of limits or a signal, fixed when the key is pressed: rows may change while the user types.
  std::string limits_for;
  SignalWish signal_for;
  std::string said;  // reply to the last key, shown until the next
  std::uint64_t interval_ms = 1000;

  // Requests to the caller, which takes and clears them.
  bool quit = false;
  std::optional<LimitsWish> wish;
  std::optional<SignalWish> signal;
};

// Adds a newer snapshot and the events since the last. Does nothing while paused.
[[nodiscard]] TopState observed(TopState state, snapshot::Snapshot picture, std::vector<snapshot::Event> events);

[[nodiscard]] TopState apply(TopState state, const Key& key);

// Returns the users that own a share or run a process on a GPU, sorted.
[[nodiscard]] std::vector<std::string> users_of(const snapshot::Snapshot& picture);

// A row of the table.
struct TopRow {
  std::string key;    // the same in every snapshot
  std::string share;  // empty: no share, or several
  std::string uuid;   // if the row has one GPU, else empty
  unsigned depth = 0;
  std::string name, owner, gpu, where, level, state;
  std::optional<std::uint64_t> limit_bytes;
  std::uint64_t used_bytes = 0;
  std::optional<double> held_ratio, waited_ratio;
  double guarantee_ratio = 0, ceiling_ratio = 1;
  std::uint64_t refusals = 0, idle_ns = 0;
  std::uint32_t processes = 0;
  bool process = false;
  std::uint32_t pid = 0;       // of a process, for display
  std::uint32_t host_pid = 0;  // for signals; 0: unknown, or known only from its share's page
  int colour = -1;             // index of the share in the snapshot; -1: no share
};

[[nodiscard]] std::vector<TopRow> rows_of(const TopState& state);
// Returns the index of the selected row; 0 if it is not among them.
[[nodiscard]] std::size_t selected_row(const std::vector<TopRow>& rows, const TopState& state);

// Returns the fraction of a GPU's time used outside shares, beside `held` by shares: the driver's figures per process,
// or if it reports none, the rest of the GPU's busy time.
[[nodiscard]] double outside_ratio(const snapshot::Snapshot& picture, const snapshot::Gpu& gpu, double held);

// Returns the fraction of a GPU's time in use, by shares and others; the driver's figure if no share is metered.
[[nodiscard]] std::optional<double> time_ratio(const snapshot::Snapshot& picture, const snapshot::Gpu& gpu);

[[nodiscard]] std::string view_word(TopView view);  // "share"
[[nodiscard]] std::string sort_word(TopSort sort);

// Parses "TERM", "sigterm" or "15"; empty text means TERM. Returns nothing if unknown.
[[nodiscard]] std::optional<int> signal_number(std::string_view word);
// Returns "TERM", or the number if the signal has no name.
[[nodiscard]] std::string signal_word(int number);

// Signals the process that had this PID in a snapshot: through a pidfd, and only if /proc shows that it started before
// the snapshot. Errors: failed if it has ended, even if the PID is in use again; denied if we may not signal it.
[[nodiscard]] Result<void> send_signal(std::uint32_t pid, std::uint64_t seen_unix_ns, int number);

}  // namespace headgate::cli
