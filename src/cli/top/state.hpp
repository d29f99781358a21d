// What `headgate top` knows and what the person at it has chosen; and what a picture or a key makes of it. Pure.
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
enum class TopPreset { all, table, gpus };  // which parts a frame has
enum class TopMode { table, details, help, filter, limits, signal };

inline constexpr std::size_t kTopHistory = 120;  // pictures
inline constexpr std::size_t kTopEvents = 200;

// Values of 0 to 1, the newest last, by history_key() or by a GPU's UUID.
using TopHistory = std::map<std::string, std::vector<double>>;
[[nodiscard]] std::string history_key(const std::string& share, const std::string& uuid);

// New limits for a share, as they were typed: words of `share set` ("mem=12GiB compute=50%").
struct LimitsWish {
  std::string share;
  std::vector<std::pair<std::string, std::string>> values;
  friend bool operator==(const LimitsWish&, const LimitsWish&) = default;
};

// A signal for processes that a picture showed.
struct SignalWish {
  struct To {
    std::uint32_t pid = 0;
    std::string command, user;
    std::uint64_t seen_unix_ns = 0;  // in a picture of that time, by the person who chose it
    friend bool operator==(const To&, const To&) = default;
  };
  std::vector<To> to;
  int number = 0;
  friend bool operator==(const SignalWish&, const SignalWish&) = default;
};

struct TopState {
  // Known.
  std::optional<snapshot::Snapshot> now;  // none before the first look
  bool daemon = false;
  std::string pid_space;  // of whoever runs this: signals go nowhere else
  std::string trouble;    // why there is no newer picture, or what it lacks
  TopHistory held, memory;
  std::vector<snapshot::Event> events;  // oldest first

  // Chosen.
  TopView view = TopView::share;
  TopSort sort = TopSort::name;
  TopMode mode = TopMode::table;
  TopPreset preset = TopPreset::all;
  bool reverse = false, tree = false, paused = false, readonly = false;
  std::string selected;  // key of a row; the first where it names none
  std::string filter, user;
  int help_from = 0;  // lines of the page of keys above those that are shown; where it fits, all are
  std::map<std::uint32_t, std::uint64_t> tagged;  // host pids, each with the time of the picture
  bool lost_tags = false;                         // processes that were tagged have ended
  std::string typed;                              // in modes filter, limits and signal
  // Whom limits or a signal are for, from the key on: rows may come and go while somebody types.
  std::string limits_for;
  SignalWish signal_for;
  std::string said;  // an answer to the last key, shown until the next
  std::uint64_t interval_ms = 1000;

  // Asked of whoever runs this; taken out by it.
  bool quit = false;
  std::optional<LimitsWish> wish;
  std::optional<SignalWish> signal;
};

// A newer picture with the events since the last. Nothing changes while the person has it paused.
[[nodiscard]] TopState observed(TopState state, snapshot::Snapshot picture, std::vector<snapshot::Event> events);

[[nodiscard]] TopState apply(TopState state, const Key& key);

// The users that own a share or run a process on a GPU, sorted.
[[nodiscard]] std::vector<std::string> users_of(const snapshot::Snapshot& picture);

}  // namespace headgate::cli
