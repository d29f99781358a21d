// Commands that show a snapshot of the node, once or again and again.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/term/output.hpp"
#include "cli/top/watcher.hpp"
#include "cli/view/snapshot_source.hpp"
#include "cli/view/views.hpp"
#include "http/endpoint.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

struct Chosen {
  std::unique_ptr<SnapshotSource> source;
  std::optional<http::Endpoint> daemon;
  // Set if a daemon was here and does not answer: the source knows only what its pages show.
  std::optional<Error> silence = {};
};

// With --sim: that simulated node, without a daemon. Errors: those of find_daemon() and local_source().
[[nodiscard]] Result<Chosen> choose_source(const Call& call);

// Why a view has nothing to show: no driver and no daemon answers, and there is no share. Empty: it has something.
[[nodiscard]] std::optional<Error> nothing_to_show(const std::string& no_gpus, const snapshot::Snapshot& now,
                                                   const std::string& command);

// A view of one snapshot: text for stdout, and an error to print beside it.
struct Shown {
  std::string text = {};
  std::optional<Error> trouble = {};
  int status = 0;  // exit status if there is no error
};
// `heading`: CSV starts with the column names.
using View = std::function<Result<Shown>(const NodeSnapshot& snapshot, const Voice& voice, bool heading)>;

// Shows the view once, or again and again with --watch. `rates`: it shows rates; without a daemon it then takes two
// snapshots if a program runs, --interval apart.
[[nodiscard]] Result<int> show_view(const Call& call, Chosen chosen, const View& view, bool rates = false);
// Takes a snapshot for one view. Errors: the source's; unreachable if --sim names no node.
[[nodiscard]] Result<NodeSnapshot> look(const Call& call, const Chosen& chosen, bool rates = false);
// Reports shares whose pages cannot be read.
void name_problems(const NodeSnapshot& snapshot, const Voice& voice);

struct Watched {
  std::string title;  // "headgate status"
  std::chrono::milliseconds interval;
  std::unique_ptr<SnapshotSource> source;  // the same for all snapshots
  // Formats a snapshot; `heading` is false once the CSV column names are printed. May be called again for the same
  // snapshot after a terminal resize.
  std::function<Result<std::string>(const Look& look, const Voice& voice, bool heading)> draw;
};

// Runs until Ctrl-C or q (0), or another signal (128 + its number). A failure of the first snapshot is an error; later
// ones are reported while waiting for the next. Errors also: standard output is gone.
[[nodiscard]] Result<int> watch(Watched watched, const Voice& voice);

// `headgate events`.
struct EventsOptions {
  bool follow = false, all = false;
  std::string share, kind;  // kind: what it begins with; "" for all
  std::optional<std::uint64_t> since_ns;
};

void add_events_options(Options& options, EventsOptions& own);

// Folds starts and ends of a share's programs within a minute into one event, if there are at least three:
// "12 runs in alice, 11 ended". It stands where the last of them stood.
[[nodiscard]] std::vector<snapshot::Event> folded(const std::vector<snapshot::Event>& all);

// Formats a line of `headgate events`: "14:02:11  warn   TEXT", with the date if it is not the day of `now_unix_ns`.
[[nodiscard]] std::string event_line(const snapshot::Event& event, std::uint64_t now_unix_ns, const Voice& voice);

}  // namespace headgate::cli
