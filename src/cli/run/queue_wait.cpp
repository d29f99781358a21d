#include "cli/run/run_daemon.hpp"

#include <csignal>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "base/json.hpp"
#include "cli/share/daemon.hpp"
#include "http/client.hpp"

namespace headgate::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
constexpr milliseconds kAnswer(2000), kSilence(10'000);  // the daemon sends a heartbeat every second

// The result of one wait: the share or the daemon's refusal; nothing if the connection was lost.
using End = std::optional<Result<std::string>>;

class Line {
 public:
  Line(const http::Endpoint& daemon, const std::string& body, const Voice& voice)
      : daemon_(daemon), body_(body), voice_(voice) {}

  // Waits in the queue. `left`: null means without a limit.
  Result<End> stand(std::optional<std::chrono::seconds> left) {
    http::OutgoingRequest request{.method = "POST", .target = "/v1/queue", .body = body_};
    if (left) request.target += "?wait=" + std::to_string(left->count()) + "s";
    auto stream = TRY(http::EventSource::open(daemon_, request, kAnswer));
    for (;;) {
      const auto told = stream.next(kSilence);
      if (!told || !*told) return std::nullopt;
      const http::Event& event = **told;
      if (event.name == "queue.made") return Result<std::string>(event.data);
      if (event.name == "queue.refused") return Result<std::string>(std::unexpected(http::error_of(0, event.data)));
      if (event.name == "queue.waiting") tell(event.data);
    }
  }

 private:
  void tell(const std::string& data) {
    const auto json = parse_json(data);
    if (!json.is_object() || !voice_.talk) return;
    const auto place = json.value("place", 0u);
    if (place == told_) return;
    told_ = place;
    say("waiting for room, number " + std::to_string(place) + " in line: " + harmless(json.value("reason", "")));
  }

  const http::Endpoint& daemon_;
  const std::string& body_;
  const Voice& voice_;
  unsigned told_ = 0;
};

std::unexpected<Error> too_late() {
  return fail(ErrorCode::no_capacity, "the time to wait is over, and headgated has not come back",
              "is it running? headgate doctor");
}

void tell_wait(const Entry& entry) {
  say("share " + harmless(entry.share) + ": its programs wait: " + harmless(entry.waits_for));
}

}  // namespace

Result<std::string> share_by_line(const http::Endpoint& daemon, const std::string& name, const std::string& body,
                                  std::optional<Clock::time_point> until, const Voice& voice) {
  Line line(daemon, body, voice);
  for (bool away = false;;) {
    if (away) {
      // The daemon may have made the share just before it went away.
      const auto made = ask(daemon, "GET", "/v1/shares/" + http::escape(name), "", kAnswer);
      if (made) return *made;
      if (may_pass(made.error().code)) {
        if (until && Clock::now() >= *until) return too_late();
        std::this_thread::sleep_for(milliseconds(250));
        continue;
      }
    }
    std::optional<std::chrono::seconds> left;
    if (until) {
      left = std::chrono::ceil<std::chrono::seconds>(*until - Clock::now());
      if (left->count() < 1) {
        if (away) return too_late();
        left = std::chrono::seconds(1);
      }
    }
    const auto end = line.stand(left);
    if (!end && !(away && may_pass(end.error().code))) return std::unexpected(end.error());
    if (end && *end) return **end;
    if (!away && voice.talk) say("headgated went away: waiting for it, then for room again");
    away = true;
  }
}

GpuWait::GpuWait(const Entry& entry, std::function<Result<Entry>()> ask, const Voice& voice,
                 std::chrono::milliseconds pause)
    : ask_(std::move(ask)), pause_(pause) {
  if (entry.waits_for.empty() || voice.quiet) return;
  tell_wait(entry);
  // Signals are for the thread that passes them on to the program.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { follow(stop); });
  } catch (const std::system_error&) {  // no more threads for now: the wait is told once
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void GpuWait::follow(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  for (;;) {
    stopped_.wait_for(lock, stop, pause_, [] { return false; });
    if (stop.stop_requested()) return;
    const auto entry = ask_();
    if (!entry) continue;  // the daemon may be restarting
    if (entry->waits_for.empty()) return say("share " + harmless(entry->share) + ": its programs wait no longer");
    tell_wait(*entry);
  }
}

}  // namespace headgate::cli
