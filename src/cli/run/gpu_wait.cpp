#include "cli/run/gpu_wait.hpp"

#include <csignal>

namespace headgate::cli {
namespace {

void tell_wait(const Entry& entry) {
  say("share " + harmless(entry.share) + ": its programs wait: " + harmless(entry.waits_for));
}

}  // namespace

GpuWait::GpuWait(const Entry& entry, std::function<Result<Entry>()> ask, const Voice& voice,
                 std::chrono::milliseconds pause)
    : ask_(std::move(ask)), pause_(pause) {
  if (entry.waits_for.empty() || voice.quiet) return;
  tell_wait(entry);
  // Signals are for the thread that passes them on to the program.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::jthread([this](const std::stop_token& stop) { follow(stop); });
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
