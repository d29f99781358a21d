#include "api/job_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string_view>

#include "base/unique_fd.hpp"
#include "base/write_all.hpp"

namespace headgate::api {
namespace {

// "slurm 1234.0" is job 1234; empty: it is none.
std::string job_of(std::string_view where) {
  constexpr std::string_view kSlurm = "slurm ";
  if (!where.starts_with(kSlurm)) return {};
  where.remove_prefix(kSlurm.size());
  return std::string(where.substr(0, where.find('.')));
}

Result<void> replace(const std::string& path, const std::string& text) {
  const std::string next = path + ".new";
  ::unlink(next.c_str());  // of a writer that was killed
  {
    // Not through a link: the directory may be another user's.
    const UniqueFd file(::open(next.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
    if (!file) return fail_errno(next, errno);
    if (const int error = write_all(file.get(), text); error != 0) {
      ::unlink(next.c_str());
      return fail_errno(next, error);
    }
  }
  if (std::rename(next.c_str(), path.c_str()) != 0) return fail_errno(path, errno);
  return {};
}

}  // namespace

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
  if (written_.empty()) ::mkdir(directory_.c_str(), 0755);  // what it fails for, the first file will name
  for (const auto& [gpu, ids] : jobs) {
    if (const auto before = written_.find(gpu); before != written_.end() && before->second == ids) continue;
    std::string text;
    for (const auto& id : ids) text += id + "\n";
    if (auto done = replace(directory_ + "/" + std::to_string(gpu), text); !done) return done;
    written_[gpu] = ids;
  }
  return {};
}

Result<void> JobFiles::clear() {
  JobsOfGpus none = written_;
  for (auto& [gpu, ids] : none) ids.clear();
  return write(none);
}

}  // namespace headgate::api
