#include "cli/view/view_command.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "base/now.hpp"
#include "base/units.hpp"
#include "cli/share/daemon.hpp"
#include "cli/term/screen.hpp"
#include "cli/view/names.hpp"

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

// Formats a time as --watch accepts it.
std::string time_word(std::chrono::milliseconds time) {
  const auto count = time.count();
  if (count % 60'000 == 0) return std::to_string(count / 60'000) + "m";
  return count % 1000 == 0 ? std::to_string(count / 1000) + "s" : std::to_string(count) + "ms";
}

class Repeating {
 public:
  Repeating(Watched watched, const Voice& voice)
      : title_(std::move(watched.title)),
        every_(time_word(watched.interval)),
        draw_(std::move(watched.draw)),
        voice_(voice),
        on_screen_(is_table(voice.format) && can_place_cursor()),
        is_daemon_(watched.source->is_daemon()),
        skips_(!on_screen_ && !is_daemon_ ? 1 : 0),
        watcher_(std::move(watched.source), watched.interval) {
    enter();
  }

  Result<int> run() {
    for (;;) {
      std::array<pollfd, 3> on = {pollfd{signals_.fd(), POLLIN, 0}, pollfd{watcher_.fd(), POLLIN, 0},
                                  pollfd{screen_ && ::isatty(STDIN_FILENO) == 1 ? STDIN_FILENO : -1, POLLIN, 0}};
      if (::poll(on.data(), on.size(), -1) < 0 && errno != EINTR)
        return fail(ErrorCode::failed, "cannot wait for the next look");
      if (on[0].revents != 0)
        if (const int status = TRY(heed_signals()); status >= 0) return status;
      if (on[1].revents != 0) TRY(take_look());
      if (on[2].revents != 0)
        if (const int status = read_keys(); status >= 0) return status;
    }
  }

 private:
  void enter() {
    if (!on_screen_) return;
    screen_.emplace();
    keyboard_.emplace();
  }
  void leave() {
    keyboard_.reset();
    screen_.reset();
  }

  // Returns the exit status, or -1 to go on.
  Result<int> heed_signals() {
    bool stop = false, redraw = false;
    for (const int number : signals_.take()) {
      if (number == SIGINT) return 0;
      if (number == SIGTSTP) stop = true;
      else if (number == SIGWINCH) redraw = true;
      else if (number != SIGCONT) return 128 + number;
    }
    if (stop) {
      leave();
      TerminalSignals::stop();
      enter();
    }
    if ((stop || redraw) && on_screen_ && look_) TRY(show());
    return -1;
  }

  int read_keys() {
    std::array<char, 64> bytes{};
    const ssize_t got = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (got < 0) return errno == EINTR || errno == EAGAIN ? -1 : 128 + SIGHUP;
    if (got == 0) return 128 + SIGHUP;
    return std::string_view(bytes.data(), static_cast<std::size_t>(got)).find_first_of("qQ") == std::string_view::npos
               ? -1
               : 0;
  }

  Result<void> take_look() {
    auto look = watcher_.take();
    if (!look) return {};
    // Rates need a previous snapshot, and without a daemon there is none. A terminal shows the first one anyway,
    // because the next follows at once.
    if (look->snapshot && skips_ > 0) {
      --skips_;
      return {};
    }
    look_ = std::move(*look);
    return show();
  }

  Result<void> show() {
    Voice voice = voice_;
    if (screen_) voice.columns = screen_->size().columns;
    auto text = draw_(*look_, voice, !shown_);
    if (!text && !shown_) return std::unexpected(text.error());
    if (screen_) {
      if (text) last_ = std::move(*text);
      return draw_frame(text ? "" : text.error().message);
    }
    if (!text) {
      // Report each problem once.
      if (text.error().message != trouble_) complain(text.error(), voice_);
      trouble_ = text.error().message;
      return {};
    }
    if (!std::exchange(trouble_, {}).empty() && !voice_.quiet)
      say(is_daemon_ ? "headgated answers again" : "the node can be looked at again");
    const bool apart = shown_ && voice.format != Format::jsonl && voice.format != Format::csv;
    shown_ = true;
    return print((apart ? "\n" : "") + *text) ? Result<void>{} : gone();
  }

  Result<void> draw_frame(const std::string& trouble) {
    shown_ = true;
    const FrameSize size = screen_->size();
    std::string head = title_ + ", every " + every_;
    if (look_->snapshot) taken_unix_ns_ = look_->snapshot->taken_unix_ns;
    if (trouble.empty()) head += ", at " + clock_text(taken_unix_ns_) + "; q ends it";
    else if (is_daemon_) head += "\n" + format_old_snapshot(taken_unix_ns_, unix_now_ns());
    else head += "; the snapshot is old: " + harmless(trouble);
    return screen_->show(cropped(head + "\n\n" + last_, size)) ? Result<void>{} : gone();
  }

  static std::unexpected<Error> gone() { return fail(ErrorCode::failed, "cannot write to standard output"); }

  const std::string title_, every_;
  const std::function<Result<std::string>(const Look&, const Voice&, bool)> draw_;
  const Voice voice_;
  const bool on_screen_, is_daemon_;
  int skips_;
  const TerminalSignals signals_;  // before the watcher: its thread must inherit the blocked mask
  Watcher watcher_;
  std::optional<Look> look_;
  bool shown_ = false;
  std::string last_, trouble_;
  std::uint64_t taken_unix_ns_ = 0;  // of the last good snapshot
  std::optional<Screen> screen_;
  std::optional<Keyboard> keyboard_;  // restored before the screen
};

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

Result<int> watch(Watched watched, const Voice& voice) { return Repeating(std::move(watched), voice).run(); }

}  // namespace headgate::cli
