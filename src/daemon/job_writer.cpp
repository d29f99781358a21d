#include "daemon/job_writer.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "daemon/journal.hpp"

namespace headgate::daemon {

Result<std::optional<std::string>> JobWriter::directory_of(const config::Config& config) {
  const auto& wish = config["metrics.job_directory"];
  if (wish.value.empty()) return std::nullopt;
  if (!wish.value.starts_with('/'))
    return fail(ErrorCode::usage, wish.origin + ": metrics.job_directory = '" + wish.value + "' is a relative path",
                "accepted: a path that begins with /");
  return wish.value;
}

JobWriter::JobWriter(std::string directory, const observe::Observer& observer)
    : observer_(observer),
      files_(std::move(directory)),
      thread_([this](const std::stop_token& stop) { write_until(stop); }) {}

void JobWriter::say(const Result<void>& done) {
  if (!done && !failing_) journal(JournalLevel::warning, "metrics.job_directory: " + done.error().message);
  failing_ = !done;
}

void JobWriter::write_until(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    say(files_.write(api::jobs_of(*observer_.latest())));
    wake.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; });
  }
  say(files_.clear());
}

}  // namespace headgate::daemon
