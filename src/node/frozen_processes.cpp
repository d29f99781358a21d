#include "node/frozen_processes.hpp"

#include <algorithm>

#include "identity/cgroup.hpp"
#include "identity/process.hpp"

namespace headgate::node {
namespace {

// Returns field 3 of stat, proc(5): it follows the program's name, which may hold anything, brackets too.
char state_of(const std::string& stat) {
  const auto name_end = stat.rfind(") ");
  return name_end == std::string::npos || name_end + 2 >= stat.size() ? '\0' : stat[name_end + 2];
}

bool is_frozen(const identity::CgroupLine& line, const Roots& roots) {
  if (line.path.contains("..")) return false;  // not below our root
  if (line.controllers == "freezer") {
    const auto state = identity::read_file(roots.cgroup + "/freezer" + line.path + "/freezer.state");
    return state && state->starts_with("FROZEN");
  }
  if (line.hierarchy != 0) return false;
  // The effective state, whichever ancestor was frozen.
  const auto events = identity::read_file(roots.cgroup + line.path + "/cgroup.events");
  return events && events->contains("frozen 1");
}

}  // namespace

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

bool is_frozen(std::uint32_t pid, const Roots& roots) {
  const auto stat = identity::read_file(roots.proc + "/" + std::to_string(pid) + "/stat");
  if (stat && (state_of(*stat) == 'T' || state_of(*stat) == 't')) return true;
  const auto lines = identity::read_cgroups(roots.proc, pid);
  return lines && std::ranges::any_of(*lines, [&](const auto& line) { return is_frozen(line, roots); });
}

}  // namespace headgate::node
