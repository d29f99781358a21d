#include "cli/top/top.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <thread>

#include "base/now.hpp"
#include "base/whole_file.hpp"
#include "cli/commands.hpp"
#include "cli/share/daemon.hpp"
#include "cli/share/order.hpp"
#include "cli/term/screen.hpp"
#include "cli/top/picture.hpp"
#include "cli/top/watcher.hpp"
#include "cli/view/names.hpp"
#include "cli/view/view_command.hpp"
#include "http/codec.hpp"
#include "install/paths.hpp"
#include "observe/pid_space.hpp"

namespace headgate::cli {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kTakeOff{8};  // to detach a client from its MPS server

TopView view_named(const std::string& word) {
  for (const auto view : {TopView::gpu, TopView::user, TopView::process})
    if (view_word(view) == word) return view;
  return TopView::share;
}

TopState first_state(const Call& call, const TopOptions& own, const Chosen& chosen) {
  TopState state;
  state.daemon = chosen.source->is_daemon();
  state.pid_space = observe::own_pid_space();
  state.view = view_named(own.by);
  state.readonly = own.readonly;
  state.sort = TopSort::compute;  // as top, htop and nvtop begin: the largest use first
  state.interval_ms = call.interval_ms.value_or(1000);
  return state;
}

Result<std::string> once(const Call& call, const TopOptions& own, Chosen chosen) {
  TopState state = first_state(call, own, chosen);
  auto picture = TRY(chosen.source->look());
  // Rates need an earlier snapshot; a daemon has one.
  if (!state.daemon) {
    std::this_thread::sleep_for(milliseconds(100));
    picture = TRY(chosen.source->look());
  }
  if (auto nothing = nothing_to_show(state.daemon ? "" : chosen.source->remark(), picture, "top"))
    return std::unexpected(*std::move(nothing));
  state.trouble = chosen.silence ? chosen.silence->message : chosen.source->remark();
  state = observed(std::move(state), std::move(picture), {});
  return call.voice.format == Format::json ? top_json(state) : top_text(state, call.voice);
}

// The live view: waits for keys, signals and snapshots, and draws a frame after each.
class Live {
 public:
  Live(const Call& call, const TopOptions& own, Chosen chosen)
      : state_(first_state(call, own, chosen)),
        style_{.colour = call.voice.colour, .ascii = call.voice.ascii || !speaks_utf8()},
        daemon_(chosen.daemon),
        silence_(chosen.silence ? chosen.silence->message : ""),
        watcher_(std::move(chosen.source), milliseconds(state_.interval_ms)) {
    enter();
  }

  // Returns the exit status.
  int run() {
    const TopOrder before = remembered_order().value_or(TopOrder());
    state_.sort = before.sort, state_.reverse = before.reverse;
    int status = -1;
    while (!state_.quit && status < 0) status = draw() ? wait() : 128 + SIGHUP;
    if (const TopOrder order{state_.sort, state_.reverse}; order != before) remember_order(order);
    return std::max(status, 0);
  }

 private:
  void enter() {
    screen_ = std::make_unique<Screen>();
    keyboard_ = std::make_unique<Keyboard>();
  }
  void leave() {
    keyboard_.reset();
    screen_.reset();
  }

  bool draw() { return screen_->show(render(state_, screen_->size(), style_)); }

  // Waits for an event. Returns the exit status if it ends the program, else -1.
  int wait() {
    std::array<pollfd, 3> on = {pollfd{signals_.fd(), POLLIN, 0}, pollfd{watcher_.fd(), POLLIN, 0},
                                pollfd{::isatty(STDIN_FILENO) == 1 ? STDIN_FILENO : -1, POLLIN, 0}};
    // An escape byte may start a sequence; after this time without more bytes it was the key itself.
    constexpr int kSequenceMs = 50;
    const int ready = ::poll(on.data(), on.size(), keys_.waiting() ? kSequenceMs : -1);
    if (ready < 0) return errno == EINTR ? -1 : 1;
    if (ready == 0) press(keys_.pause());
    if (on[0].revents != 0)
      if (const int status = heed_signals(); status >= 0) return status;
    if (on[1].revents != 0) take_look();
    if (on[2].revents != 0 && !read_keys()) return 128 + SIGHUP;
    return -1;
  }

  int heed_signals() {
    bool stop = false;
    for (const int number : signals_.take()) {
      if (number == SIGTSTP) stop = true;
      else if (number != SIGWINCH && number != SIGCONT) return 128 + number;
    }
    if (stop) {
      leave();
      TerminalSignals::stop();
      // If such a signal came while we were stopped, leave now: the terminal is already restored.
      for (const int number : signals_.take())
        if (number == SIGTERM || number == SIGHUP || number == SIGINT) return 128 + number;
      enter();
    }
    return -1;
  }

  void take_look() {
    auto look = watcher_.take();
    if (!look) return;
    if (look->snapshot) {
      state_.trouble = silence_.empty() ? look->remark : silence_;
      state_ = observed(std::move(state_), std::move(*look->snapshot), std::move(look->events));
    } else {
      state_.trouble = state_.daemon && state_.now ? format_old_snapshot(state_.now->taken_unix_ns, unix_now_ns())
                                                   : look->snapshot.error().message;
    }
  }

  // Returns false if the terminal is gone.
  bool read_keys() {
    std::array<char, 512> bytes{};
    const ssize_t got = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (got < 0) return errno == EINTR || errno == EAGAIN;
    if (got == 0) return false;
    press(keys_.feed({bytes.data(), static_cast<std::size_t>(got)}));
    return true;
  }

  void press(const std::vector<Key>& keys) {
    for (const Key& key : keys) {
      const TopMode before = state_.mode;
      state_ = apply(std::move(state_), key);
      // Drop pasted or typed-ahead keys: they must not answer a question that the user has not seen.
      if (state_.mode == TopMode::signal && before != TopMode::signal) break;
    }
    watcher_.set_interval(milliseconds(state_.interval_ms));
    if (const auto wish = std::exchange(state_.wish, std::nullopt)) set_limits(*wish);
    if (const auto signal = std::exchange(state_.signal, std::nullopt)) send(*signal);
  }

  // Killing an MPS client also takes down the server's other clients, so the daemon detaches it first. After an error
  // it must not be signalled.
  Result<void> take_off_mps(std::uint32_t pid, int signal) const {
    const bool ends = signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGQUIT ||
                      signal == SIGHUP || signal == SIGABRT;
    if (!ends || !daemon_ || !state_.now) return {};
    const auto process = std::ranges::find(state_.now->processes, pid, &snapshot::Process::pid);
    if (process == state_.now->processes.end() || std::ranges::none_of(process->devices, &snapshot::ProcessDevice::mps))
      return {};
    TRY(ask(*daemon_, "POST", "/v1/mps/clients/" + std::to_string(pid) + "/terminate", {}, kTakeOff));
    return {};
  }

  void send(const SignalWish& wish) {
    std::size_t reached = 0;
    std::string trouble;
    for (const auto& to : wish.to) {
      auto sent = take_off_mps(to.pid, wish.number);
      if (sent) sent = send_signal(to.pid, to.seen_unix_ns, wish.number);
      if (sent) ++reached;
      else trouble += "; " + sent.error().message;
    }
    const bool one = reached == 1 && wish.to.size() == 1;
    const std::string who = one ? wish.to[0].command + " " + std::to_string(wish.to[0].pid)
                                : std::to_string(reached) + " of " + std::to_string(wish.to.size()) + " processes";
    state_.said = signal_word(wish.number) + " was sent to " + who + trouble;
    state_.tagged.clear();
  }

  void set_limits(const LimitsWish& wish) {
    const auto done = ask(*daemon_, "PATCH", "/v1/shares/" + http::escape(wish.share),
                          body_of({wish.values.begin(), wish.values.end()}));
    state_.said = done ? wish.share + " has its new limits"
                       : done.error().message + (done.error().hint.empty() ? "" : "; " + done.error().hint);
  }

  TopState state_;
  const FrameStyle style_;
  const std::optional<http::Endpoint> daemon_;
  const std::string silence_;      // of a daemon that was here before
  const TerminalSignals signals_;  // before the watcher: its thread must inherit the blocked mask
  Watcher watcher_;
  KeyReader keys_;
  std::unique_ptr<Screen> screen_;
  std::unique_ptr<Keyboard> keyboard_;  // restored before the screen
};

Result<int> top(const Call& call, const TopOptions& own) {
  Chosen chosen = TRY(choose_source(call));
  const bool live = !own.once && call.voice.format == Format::table && can_place_cursor();
  if (live) return Live(call, own, std::move(chosen)).run();
  return show(once(call, own, std::move(chosen)));
}

// Empty if the environment names no directory.
std::string user_config_directory() {
  const std::string config = install::environment("XDG_CONFIG_HOME"), home = install::environment("HOME");
  if (config.starts_with('/')) return config + "/headgate";
  return home.starts_with('/') ? home + "/.config/headgate" : "";
}

std::string order_text(const TopOrder& order) {
  return sort_word(order.sort) + (order.reverse ? " reversed" : "") + "\n";
}

}  // namespace

void add_top_options(Options& options, TopOptions& own) {
  options.simulated();
  options.flag("-1,--once", "print one table, for scripts and screen readers", own.once);
  options.flag("--readonly", "disable the keys that change something", own.readonly);
  options.text("--by", "WHAT", "rows by share, gpu, user or process", own.by).store =
      [&own](const std::vector<std::string>& values) -> Result<void> {
    own.by = values.front();
    if (view_word(view_named(own.by)) == own.by) return {};
    return fail(ErrorCode::usage, "--by '" + harmless(own.by) + "' is not understood",
                "accepted: share, gpu, user or process");
  };
  options.interval("time between refreshes", "1s");
}

Commands top_commands() {
  return {command<TopOptions>(kLook, "top", "watch GPUs, shares and processes live; ? shows its keys", add_top_options,
                              top)};
}

std::optional<TopOrder> remembered_order() {
  constexpr std::size_t kMost = 64;
  const std::string directory = user_config_directory();
  const auto file = directory.empty() ? fail(ErrorCode::not_found, "") : read_whole_file(directory + "/top", kMost);
  if (!file) return std::nullopt;
  for (const bool reverse : {false, true}) {
    for (int sort = 0; sort <= static_cast<int>(TopSort::state); ++sort) {
      const TopOrder order{static_cast<TopSort>(sort), reverse};
      if (file->text == order_text(order)) return order;
    }
  }
  return std::nullopt;
}

void remember_order(const TopOrder& order) {
  const std::string directory = user_config_directory();
  if (directory.empty()) return;
  // Root may have another user's HOME; what it made there, that user could not change.
  std::filesystem::path there = directory;
  struct stat above{};
  while (::stat(there.c_str(), &above) != 0 && there.has_relative_path()) there = there.parent_path();
  if (above.st_uid != ::geteuid()) return;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(directory).parent_path(), ignored);
  ::mkdir(directory.c_str(), 0700);
  struct stat facts{};
  if (::lstat(directory.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode) || facts.st_uid != ::geteuid()) return;
  // A lost order is no reason to complain.
  (void)replace_whole_file(directory + "/top", order_text(order), {.durable = false});
}

}  // namespace headgate::cli
