// Keeps the files of jobs (api/job_files.hpp) up to date, on a thread of its own: a file system that hangs keeps nobody waiting.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "api/job_files.hpp"
#include "config/config.hpp"
#include "observe/observer.hpp"

namespace headgate::daemon {

class JobWriter {
 public:
  // Empty where none are asked for. Errors: usage, naming the key and where it stands.
  [[nodiscard]] static Result<std::optional<std::string>> directory_of(const config::Config& config);

  // `observer` must outlive it.
  JobWriter(std::string directory, const observe::Observer& observer);
  ~JobWriter();
  JobWriter(const JobWriter&) = delete;

 private:
  void write_until_stopped();
  void say(const Result<void>& done);

  const observe::Observer& observer_;
  api::JobFiles files_;
  bool failing_ = false;  // said once
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace headgate::daemon
