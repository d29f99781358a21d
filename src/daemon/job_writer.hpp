// Keeps the files of jobs (api/job_files.hpp) up to date, on a separate thread: a file system that hangs blocks only
// that.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "api/job_files.hpp"
#include "config/config.hpp"
#include "observe/observer.hpp"

namespace headgate::daemon {

class JobWriter {
 public:
  // Returns empty if none are wanted. Errors: usage, naming the key and where it stands.
  [[nodiscard]] static Result<std::optional<std::string>> directory_of(const config::Config& config);

  // `observer` must outlive it.
  JobWriter(std::string directory, const observe::Observer& observer);

 private:
  void write_until(const std::stop_token& stop);
  void say(const Result<void>& done);

  const observe::Observer& observer_;
  api::JobFiles files_;
  bool failing_ = false;  // reported once
  std::jthread thread_;   // last: it uses the others until it has ended
};

}  // namespace headgate::daemon
