#include "api/job_files.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <string_view>

#include "base/whole_file.hpp"

namespace headgate::api {
namespace {

// Returns the job ID of a process: "slurm 1234.0" gives 1234; empty if it is not a Slurm job.
std::string job_of(std::string_view where) {
  constexpr std::string_view kSlurm = "slurm ";
  if (!where.starts_with(kSlurm)) return {};
  where.remove_prefix(kSlurm.size());
  return std::string(where.substr(0, where.find('.')));
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

}  // namespace headgate::api
