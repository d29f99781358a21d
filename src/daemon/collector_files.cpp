#include "daemon/collector_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <stop_token>
#include <string_view>

#include "api/metrics.hpp"
#include "base/unique_fd.hpp"
#include "base/whole_file.hpp"
#include "daemon/journal.hpp"
#include "node/share_request.hpp"

namespace headgate::daemon {
namespace {

constexpr std::size_t kEventsAtOnce = 1000;

// What has been written so far.
struct Reached {
  observe::EventCursor events;
  std::uint64_t snapshot_ns = 0;
};

Result<std::string> path_from(const config::Config& config, const char* key) {
  const config::Setting& path = config[key];
  if (path.value.empty() || path.value.starts_with('/')) return path.value;
  return fail(ErrorCode::usage, path.origin + ": " + key + " = '" + path.value + "' is a relative path",
              "accepted: a path that begins with /");
}

// Returns the job ID of a process: "slurm 1234.0" gives 1234; empty if it is not a Slurm job.
std::string job_of(std::string_view where) {
  constexpr std::string_view kSlurm = "slurm ";
  if (!where.starts_with(kSlurm)) return {};
  where.remove_prefix(kSlurm.size());
  return std::string(where.substr(0, where.find('.')));
}

}  // namespace

Result<CollectorFiles> collector_files_of(const config::Config& config) {
  CollectorFiles files{.metrics_file = TRY(path_from(config, "metrics.file")),
                       .job_directory = TRY(path_from(config, "metrics.job_directory"))};
  if (files.metrics_file.empty()) return files;
  // config has checked it
  files.form = api::line_form(config["metrics.format"].value).value_or(api::LineForm::influx);
  const config::Setting& said = config["metrics.interval"];
  const auto interval = node::parse_duration("metrics.interval", said.value);
  if (!interval) return fail(ErrorCode::usage, said.origin + ": " + interval.error().message, interval.error().hint);
  files.interval = *interval;
  return files;
}

PeriodicWriter::PeriodicWriter(std::string key, std::chrono::seconds interval, Write write)
    : thread_([key = std::move(key), interval, write = std::move(write)](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any wake;
        std::unique_lock lock(mutex);
        bool failing = false;
        for (bool last = false; !last; wake.wait_for(lock, stop, interval, [] { return false; })) {
          last = stop.stop_requested();
          const auto done = write(last);
          if (!done && !failing) warn(key + ": " + done.error().message);
          failing = !done;
        }
      }) {}

PeriodicWriter::Write metrics_writer(const CollectorFiles& files, const node::Node& node,
                                     const observe::Observer& observer, const observe::EventLog& events,
                                     const api::Tally& tally) {
  return [file = LineFile(files.metrics_file), form = files.form, &node, &observer, &events, &tally,
          reached = Reached{.events = observe::EventCursor(events, events.began_after())}](bool) mutable {
    const observe::NodeSnapshot snapshot = observer.latest();
    Reached next = reached;
    std::string out;
    if (snapshot->taken_ns != next.snapshot_ns) {
      next.snapshot_ns = snapshot->taken_ns;
      out = api::metric_lines(api::families_of(*snapshot, api::daemon_figures(node, observer, tally)),
                              snapshot->node.name, snapshot->taken_unix_ns, form);
    }
    for (auto some = next.events.next(events, kEventsAtOnce); !some.empty();
         some = next.events.next(events, kEventsAtOnce)) {
      for (const auto& event : some) out += api::event_line(event, snapshot->node.name, form);
    }
    auto added = file.add(out);
    if (added) reached = next;
    return added;
  };
}

PeriodicWriter::Write jobs_writer(const std::string& directory, const observe::Observer& observer) {
  return [files = JobFiles(directory), &observer](bool last) mutable {
    return last ? files.clear() : files.write(jobs_of(*observer.latest()));
  };
}

void LineFile::turn_over() {
  for (unsigned i = kept_; i > 1; --i)
    std::rename((path_ + "." + std::to_string(i - 1)).c_str(), (path_ + "." + std::to_string(i)).c_str());
  if (kept_ > 0) std::rename(path_.c_str(), (path_ + ".1").c_str());
  else ::unlink(path_.c_str());
}

Result<void> LineFile::add(const std::string& lines) {
  struct stat facts{};
  if (::stat(path_.c_str(), &facts) == 0 && facts.st_size > 0 &&
      static_cast<std::uint64_t>(facts.st_size) + lines.size() > most_bytes_)
    turn_over();
  // O_NOFOLLOW: the directory may belong to another user.
  const UniqueFd file(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0640));
  if (!file) return fail_errno(path_, errno);
  if (::fstat(file.get(), &facts) != 0) return fail_errno(path_, errno);
  const int error = write_all(file.get(), lines);
  if (error == 0) return {};
  // The caller writes these lines again, so a partial write must not remain.
  (void)!::ftruncate(file.get(), facts.st_size);
  return fail_errno(path_, error);
}

JobsOfGpus jobs_of(const snapshot::Snapshot& snapshot) {
  JobsOfGpus jobs;
  for (const auto& gpu : snapshot.gpus) {
    if (gpu.uuid.empty()) continue;
    auto& here = jobs[gpu.index];
    for (const auto& process : snapshot.processes) {
      std::string job = job_of(process.where);
      if (!job.empty() &&
          std::ranges::find(process.devices, gpu.uuid, &snapshot::ProcessDevice::uuid) != process.devices.end())
        here.insert(std::move(job));
    }
  }
  return jobs;
}

Result<void> JobFiles::write(const JobsOfGpus& jobs) {
  if (written_.empty()) ::mkdir(directory_.c_str(), 0755);  // on failure, the first file written reports the error
  for (const auto& [gpu, ids] : jobs) {
    if (const auto before = written_.find(gpu); before != written_.end() && before->second == ids) continue;
    std::string text;
    for (const auto& id : ids) text += id + "\n";
    TRY(replace_whole_file(directory_ + "/" + std::to_string(gpu), text, {.mode = 0644}));
    written_[gpu] = ids;
  }
  return {};
}

Result<void> JobFiles::clear() {
  JobsOfGpus none = written_;
  for (auto& [gpu, ids] : none) ids.clear();
  return write(none);
}

}  // namespace headgate::daemon
