#include "cli/view/view_command.hpp"

#include <algorithm>
#include <thread>

#include "cli/share/daemon.hpp"

namespace headgate::cli {
namespace {

// Repeats the view of one source; returns the exit status.
Result<int> repeat(const Call& call, Chosen chosen, const View& view) {
  if (chosen.silence) complain(*chosen.silence, call.voice);
  const bool daemon = chosen.daemon.has_value();
  const auto draw = [&](const Look& look, const Voice& voice, bool heading) -> Result<std::string> {
    if (!look.snapshot) return std::unexpected(look.snapshot.error());
    // A daemon's snapshot is complete; the remark could only be about events, which are not shown.
    const NodeSnapshot snapshot{*look.snapshot, daemon ? "" : look.remark, daemon};
    if (call.simulate && !snapshot.no_gpus.empty()) return fail(ErrorCode::unreachable, snapshot.no_gpus);
    return TRY(view(snapshot, voice, heading)).text;
  };
  return watch({.title = "headgate " + call.command,
                .interval = std::chrono::milliseconds(*call.watch_ms),
                .source = std::move(chosen.source),
                .draw = draw},
               call.voice);
}

}  // namespace

Result<int> show_view(const Call& call, Chosen chosen, const View& view, bool rates) {
  if (call.watch_ms) return repeat(call, std::move(chosen), view);
  const auto snapshot = TRY(look(call, chosen, rates));
  name_problems(snapshot, call.voice);
  const Shown shown = TRY(view(snapshot, call.voice, true));
  TRY(show(shown.text));
  if (shown.trouble) return std::unexpected(*shown.trouble);
  return shown.status;
}

Result<NodeSnapshot> look(const Call& call, const Chosen& chosen, bool rates) {
  if (chosen.silence) complain(*chosen.silence, call.voice);
  const bool daemon = chosen.daemon.has_value();
  auto now = TRY(chosen.source->look());
  if (rates && !daemon && std::ranges::any_of(now.shares, [](const auto& share) { return share.processes > 0; })) {
    std::this_thread::sleep_for(std::chrono::milliseconds(call.interval_ms.value_or(100)));
    now = TRY(chosen.source->look());
  }
  const std::string no_gpus = chosen.source->remark();
  if (call.simulate && !no_gpus.empty()) return fail(ErrorCode::unreachable, no_gpus);
  return NodeSnapshot{std::move(now), no_gpus, daemon};
}

void name_problems(const NodeSnapshot& snapshot, const Voice& voice) {
  for (const auto& share : snapshot.now.shares) {
    if (!share.problem.empty()) complain({ErrorCode::failed, share.problem, {}}, voice);
  }
}

Result<Chosen> choose_source(const Call& call) {
  const std::string& profile = call.configuration.config["sim.profile"].value;
  if (call.simulate) return Chosen{TRY(local_source(call.simulate, profile))};
  std::optional<Error> silence;
  std::optional<std::string> pages;
  auto daemon = find_daemon();
  if (!daemon) {
    // If HEADGATE_SOCKET names a socket, show only the pages beside it, never another daemon's.
    if (daemon.error().code == ErrorCode::unreachable) pages = pages_beside_named_socket();
    if (!pages) return std::unexpected(daemon.error());
    silence = daemon.error();
    silence->message += "; what follows is read from the pages in " + harmless(*pages);
  } else if (*daemon) {
    return Chosen{daemon_source(**daemon), *daemon};
  } else if (const auto left_behind = socket_left_behind()) {
    silence = silence_at(*left_behind);
  }
  return Chosen{TRY(local_source(std::nullopt, profile, pages)), std::nullopt, silence};
}

std::optional<Error> nothing_to_show(const std::string& no_gpus, const snapshot::Snapshot& now,
                                     const std::string& command) {
  if (no_gpus.empty() || !now.shares.empty()) return std::nullopt;
  return Error{ErrorCode::unreachable, no_gpus,
               "'headgate " + command + " --sim' looks at a simulated GPU, 'headgate demo' shows one at work"};
}

}  // namespace headgate::cli
