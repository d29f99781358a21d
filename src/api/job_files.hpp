// Which Slurm jobs use which GPU, as files for NVIDIA's exporter (dcgm-exporter --hpc-job-mapping-dir): one a GPU,
// named by its index, with an id a line; empty while no job uses it.
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/result.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::api {

using JobsOfGpus = std::map<std::uint32_t, std::set<std::string>>;  // ids, by index

// Of each GPU that answers, the jobs of the processes that the snapshot shows on it, in a share or in none. Pure.
[[nodiscard]] JobsOfGpus jobs_of(const snapshot::Snapshot& snapshot);

class JobFiles {
 public:
  // The directory is made where only it is missing. Not thread-safe.
  explicit JobFiles(std::string directory) : directory_(std::move(directory)) {}
  // Writes what differs from what was written before; each file at once, so that nobody reads half of one.
  // Errors: failed, denied, no_capacity, naming the path; what could not be written is tried again at the next call.
  Result<void> write(const JobsOfGpus& jobs);
  // Nobody tells of jobs any more: empties what was written.
  Result<void> clear();

 private:
  std::string directory_;
  JobsOfGpus written_;
};

}  // namespace headgate::api
