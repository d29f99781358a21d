#include "node/is_frozen.hpp"

#include <algorithm>

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

bool is_frozen(std::uint32_t pid, const Roots& roots) {
  const auto stat = identity::read_file(roots.proc + "/" + std::to_string(pid) + "/stat");
  if (stat && (state_of(*stat) == 'T' || state_of(*stat) == 't')) return true;
  const auto lines = identity::read_cgroups(roots.proc, pid);
  return lines && std::ranges::any_of(*lines, [&](const auto& line) { return is_frozen(line, roots); });
}

}  // namespace headgate::node
