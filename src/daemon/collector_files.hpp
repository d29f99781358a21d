// Files for collectors that follow files: what /metrics shows, with the events (metrics.file), and the Slurm jobs of
// each GPU for NVIDIA's exporter (metrics.job_directory; dcgm-exporter --hpc-job-mapping-dir).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "api/figures.hpp"
#include "api/page.hpp"
#include "base/result.hpp"
#include "config/config.hpp"
#include "node/node.hpp"
#include "observe/event_log.hpp"
#include "observe/observer.hpp"

namespace headgate::daemon {

// What the configuration asks for. An empty path: not asked for.
struct CollectorFiles {
  std::string metrics_file, job_directory;
  api::LineForm form = api::LineForm::influx;
  std::chrono::seconds interval{10};  // of the metrics
};
// Errors: usage, naming the key and where it stands.
[[nodiscard]] Result<CollectorFiles> collector_files_of(const config::Config& config);

// Writes files again and again on a separate thread: a file system that hangs blocks only that.
class PeriodicWriter {
 public:
  using Write = std::function<Result<void>(bool last)>;
  // Calls `write` now, at each interval, and once more at the end, then with `last`. The log has the first of several
  // errors in a row, with the configuration's `key`.
  PeriodicWriter(std::string key, std::chrono::seconds interval, Write write);

 private:
  std::jthread thread_;
};

// Appends what is new at each call; what could not be written is included the next time. All but `files` must outlive
// the result.
[[nodiscard]] PeriodicWriter::Write metrics_writer(const CollectorFiles& files, const node::Node& node,
                                                   const observe::Observer& observer, const observe::EventLog& events,
                                                   const api::Tally& tally);
// Writes the latest snapshot's jobs; the last call empties the files. `observer` must outlive the result.
[[nodiscard]] PeriodicWriter::Write jobs_writer(const std::string& directory, const observe::Observer& observer);

// A file of lines that rotates itself, so that it never fills a disk. Not thread-safe.
class LineFile {
 public:
  // Rotated files are PATH.1 (the newest) to PATH.`kept`.
  explicit LineFile(std::string path, std::uint64_t most_bytes = 64ull << 20, unsigned kept = 3)
      : path_(std::move(path)), most_bytes_(most_bytes), kept_(kept) {}

  // Appends whole lines, all or none. Rotates first if the file would exceed most_bytes. Reopens the file at each call,
  // so an external logrotate need not notify us. Errors: failed, denied, no_capacity, naming the path.
  Result<void> add(const std::string& lines);

 private:
  void turn_over();

  std::string path_;
  std::uint64_t most_bytes_;
  unsigned kept_;
};

using JobsOfGpus = std::map<std::uint32_t, std::set<std::string>>;  // job IDs by GPU index

// Returns the jobs of each answering GPU's processes in the snapshot, inside or outside a share. Pure.
[[nodiscard]] JobsOfGpus jobs_of(const snapshot::Snapshot& snapshot);

// One file per GPU, named by its index, one job ID per line; empty while no job uses the GPU. Not thread-safe.
class JobFiles {
 public:
  // Creates the directory if only its last component is missing.
  explicit JobFiles(std::string directory) : directory_(std::move(directory)) {}
  // Writes the files that differ from the last call, each atomically. Files that could not be written are retried at
  // the next call. Errors: failed, denied, no_capacity, naming the path.
  Result<void> write(const JobsOfGpus& jobs);
  // Empties the written files, because jobs are no longer tracked.
  Result<void> clear();

 private:
  std::string directory_;
  JobsOfGpus written_;
};

}  // namespace headgate::daemon
