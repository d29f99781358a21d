// Writes the Slurm jobs of each GPU for NVIDIA's exporter (dcgm-exporter --hpc-job-mapping-dir). One file per GPU,
// named by its index, one job ID per line; empty while no job uses the GPU.
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/result.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::api {

using JobsOfGpus = std::map<std::uint32_t, std::set<std::string>>;  // job IDs by GPU index

// Returns the jobs of each answering GPU's processes in the snapshot, inside or outside a share. Pure.
[[nodiscard]] JobsOfGpus jobs_of(const snapshot::Snapshot& snapshot);

class JobFiles {
 public:
  // Creates the directory if only its last component is missing. Not thread-safe.
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

}  // namespace headgate::api
