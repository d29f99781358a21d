#include "node/frozen_processes.hpp"

#include <algorithm>

#include "identity/cgroup.hpp"
#include "identity/process.hpp"

namespace headgate::node {

void FrozenProcesses::add(const ProcessRef& process_ref, Frozen frozen) {
  frozen_[process_ref.pid] = {.start_time = process_ref.start_time, .frozen = std::move(frozen)};
}

bool FrozenProcesses::still_stands(std::uint32_t pid, const FrozenProcess& entry) const {
  const auto process = identity::read_process(roots_.proc, pid);
  if (!process || process->start_time != entry.start_time) return false;
  const auto lines = identity::read_cgroups(roots_.proc, pid);
  const auto inside = [&](const identity::CgroupLine& line) {
    return identity::lies_within(line.path, entry.frozen.cgroup);
  };
  if (!lines || std::ranges::none_of(*lines, inside)) return false;
  const auto word = identity::read_file(entry.frozen.file);
  return word && !word->starts_with(entry.frozen.thaw);
}

void FrozenProcesses::write_into(snapshot::Snapshot& snapshot) {
  std::erase_if(frozen_, [this](const auto& one) { return !still_stands(one.first, one.second); });
  for (snapshot::Process& process : snapshot.processes) {
    const auto found = frozen_.find(process.pid);
    if (found == frozen_.end()) continue;
    const Frozen& frozen = found->second.frozen;
    process.freeze = {.cgroup = frozen.cgroup, .thaw = "echo " + frozen.thaw + " > " + frozen.file};
  }
}

}  // namespace headgate::node
