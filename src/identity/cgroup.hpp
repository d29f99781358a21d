// Identifies a process by its cgroups: parses /proc/PID/cgroup on version 1, version 2 and hybrid hosts.
//
// For display, audit and runs on the host. Access to shares is decided by socket, uid and user namespace, never by
// cgroup names, which the owner of a subtree can choose. Pure, with few allocations; the input is untrusted.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace headgate::identity {

// One line: "HIERARCHY:CONTROLLERS:PATH" (cgroups(7)).
struct CgroupLine {
  std::uint32_t hierarchy = 0;  // 0: version 2
  std::string controllers;      // "pids", "cpu,cpuacct", "name=systemd"; empty for version 2
  std::string path;             // absolute, relative to the reader's cgroup namespace; "/.." leads out of it

  friend bool operator==(const CgroupLine&, const CgroupLine&) = default;
};

// Errors: failed, naming the line and what it lacks. Empty text gives no lines: a kernel without cgroups.
[[nodiscard]] Result<std::vector<CgroupLine>> parse_cgroup(std::string_view text);

enum class Kind : std::uint32_t {
  host,  // nothing more specific is known; also "0::/" of a private cgroup namespace
  docker,
  podman,
  containerd,  // nerdctl, ctr
  crio,        // outside Kubernetes
  container,   // of an engine that shows only an ID, such as Docker's cgroupfs driver with --cgroup-parent
  kubernetes,
  slurm,
  systemd,  // a system or user unit
  nspawn,
  incus,  // and LXC, LXD
};
[[nodiscard]] std::string_view word(Kind kind);

struct Identity {
  Kind kind = Kind::host;
  std::string container_id{};          // hexadecimal, in full
  std::string engine{};                // under Kubernetes: "containerd", "crio", "docker" or empty
  std::string pod_uid{};               // Kubernetes, with '-'; or a podman pod's ID
  std::string job{}, step{};           // Slurm: "4711"; "0", "batch", "extern", "interactive"
  std::string unit{};                  // the innermost systemd unit: "ssh.service", "session-3.scope"
  std::string machine{};               // the name in nspawn or Incus, with systemd's escapes undone
  std::optional<std::uint32_t> uid{};  // from the user slice or Slurm's directory: identifies the user only

  friend bool operator==(const Identity&, const Identity&) = default;
};

// Identifies one cgroup path; the innermost container, job or unit wins.
[[nodiscard]] Identity identify(std::string_view path);
// Identifies a process by its most specific hierarchy. Ties go to pids, then name=systemd, then the rest, because on
// hybrid hosts the version 2 line stays at the engine's own cgroup.
[[nodiscard]] Identity identify(std::span<const CgroupLine> lines);

// Returns true if `path` is `ancestor` or is below it, comparing whole names.
[[nodiscard]] bool lies_within(std::string_view path, std::string_view ancestor);

// Returns the mount point of a hierarchy below `mounts` ("/sys/fs/cgroup" on a host), by CgroupLine::controllers.
[[nodiscard]] std::string cgroup_folder(const std::string& mounts, const std::string& controllers);

}  // namespace headgate::identity
