// The state of `headgate top` (data and the user's choices), and how a snapshot or a key changes it. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

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

}  // namespace headgate::cli
