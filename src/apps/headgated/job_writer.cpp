#include "apps/headgated/job_writer.hpp"

#include <chrono>
#include <cstdio>
#include <utility>

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
    : observer_(observer), files_(std::move(directory)), thread_([this] { write_until_stopped(); }) {}

JobWriter::~JobWriter() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void JobWriter::say(const Result<void>& done) {
  if (!done && !failing_) std::fprintf(stderr, "headgated: metrics.job_directory: %s\n", done.error().message.c_str());
  failing_ = !done;
}

void JobWriter::write_until_stopped() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    say(files_.write(api::jobs_of(*observer_.latest())));
    lock.lock();
    wake_.wait_for(lock, std::chrono::seconds(1), [this] { return stopping_; });
  }
  say(files_.clear());
}

}  // namespace headgate::daemon
