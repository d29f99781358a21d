#include "node/own_cgroups.hpp"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "base/run_cgroup.hpp"
#include "identity/cgroup.hpp"
#include "identity/process.hpp"

namespace headgate::node {
namespace {

struct OwnCgroup {
  std::set<std::string> shares;
  std::vector<std::uint32_t> pids;
};

// Returns the process's version 2 path; empty if there is none, or it lies outside our cgroup namespace.
std::string unified_path(const Roots& roots, std::uint32_t pid) {
  const auto lines = identity::read_cgroups(roots.proc, pid);
  if (!lines) return {};
  const auto found = std::ranges::find(*lines, 0u, &identity::CgroupLine::hierarchy);
  return found == lines->end() || found->path.starts_with("/..") ? std::string() : found->path;
}

}  // namespace

std::string own_part(const std::string& path) {
  const std::string id = identity::identify(path).container_id;
  std::size_t end = 0;
  for (std::size_t from = 0; from < path.size();) {
    const std::size_t to = std::min(path.find('/', from + 1), path.size());
    const std::string_view name = std::string_view(path).substr(from + 1, to - from - 1);
    if (run_cgroup_pid(name) || (!id.empty() && name.contains(id))) end = to;
    from = to;
  }
  return path.substr(0, end);
}

std::vector<observe::FenceTarget> own_cgroups(const observe::JoinInput& input, const std::vector<RunInShare>& runs,
                                              const Roots& roots) {
  const bool hybrid = ::access((roots.cgroup + "/unified/cgroup.procs").c_str(), F_OK) == 0;
  const std::string mount = roots.cgroup + (hybrid ? "/unified" : "");
  std::map<std::string, OwnCgroup> found;  // by directory
  const auto add = [&](const std::string& path, const std::string& share, std::uint32_t pid) {
    const std::string part = own_part(path), directory = mount + part;
    // Notes of limits have one line for each.
    if (part.empty() || part.contains('\n') || ::access((directory + "/cgroup.procs").c_str(), F_OK) != 0) return;
    OwnCgroup& group = found[directory];
    group.shares.insert(share);
    if (pid != 0) group.pids.push_back(pid);
  };
  for (const RunInShare& run : runs) {
    const std::string path = unified_path(roots, run.pid);
    if (!path.empty())
      add(path + (path.ends_with('/') ? "" : "/") + std::string(kRunCgroup) + std::to_string(run.pid), run.share, 0);
  }
  for (std::size_t l = 0; l < input.ledgers.size() && l < input.host_pids.size(); ++l)
    for (const std::uint32_t pid : input.host_pids[l])
      if (pid != 0 && !input.claimed.contains(pid)) add(unified_path(roots, pid), input.ledgers[l].share.name, pid);

  std::vector<observe::FenceTarget> targets;
  for (const auto& [directory, group] : found) {
    for (const auto& ledger : input.ledgers) {
      if (!group.shares.contains(ledger.share.name)) continue;
      const bool alone = group.shares.size() == 1;
      for (const auto& device : ledger.share.devices)
        if (device.memory_limit_bytes)
          targets.push_back({.share = alone ? ledger.share.name : "",
                             .uuid = device.uuid,
                             .cgroup = directory,
                             .bytes = observe::fence_bytes(*device.memory_limit_bytes),
                             .pids = group.pids});
    }
  }
  return targets;
}

}  // namespace headgate::node
