// Who a process is, by the cgroups it sits in: /proc/PID/cgroup read on version 1, version 2 and hybrid hosts.
//
// For display, audit and runs on the bare host; what share a process may use is decided by its socket, its uid and its
// user namespace, never by names that whoever owns a subtree can choose. Pure and allocation-light; any bytes may come
// in.
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
  std::string path;  // absolute, as the reader's cgroup namespace shows it; "/.." leads out of that namespace

  friend bool operator==(const CgroupLine&, const CgroupLine&) = default;
};

// Errors: failed, naming the line and what it lacks. An empty text is no lines: a kernel without cgroups.
[[nodiscard]] Result<std::vector<CgroupLine>> parse_cgroup(std::string_view text);

enum class Kind : std::uint32_t {
  host,  // nothing better is known; also "0::/" of a private cgroup namespace
  docker,
  podman,
  containerd,  // nerdctl, ctr
  crio,        // outside Kubernetes
  container,   // of an engine that leaves only an id, such as Docker's cgroupfs driver under --cgroup-parent
  kubernetes,
  slurm,
  systemd,  // a unit of the system or of a user
  nspawn,
  incus,  // and LXC, LXD
};
[[nodiscard]] std::string_view word(Kind kind);

struct Identity {
  Kind kind = Kind::host;
  std::string container_id{};          // hexadecimal, as the engine prints it in full
  std::string engine{};                // under Kubernetes: "containerd", "crio", "docker", or empty
  std::string pod_uid{};               // Kubernetes, with '-'; or a podman pod's id
  std::string job{}, step{};           // Slurm: "4711"; "0", "batch", "extern", "interactive"
  std::string unit{};                  // innermost systemd unit around it: "ssh.service", "session-3.scope"
  std::string machine{};               // nspawn's or Incus's name, systemd's escapes undone
  std::optional<std::uint32_t> uid{};  // of the user slice or of Slurm's directory: proves the user, no more

  friend bool operator==(const Identity&, const Identity&) = default;
};

// Of one cgroup path; the innermost container, job or unit wins.
[[nodiscard]] Identity identify(std::string_view path);
// Of a process: the hierarchy that says most. Where several say the same, pids before name=systemd before the rest, for
// on hybrid hosts the version 2 line stays where the engine itself runs.
[[nodiscard]] Identity identify(std::span<const CgroupLine> lines);

// Whether `path` is `ancestor` or lies below it, whole names compared.
[[nodiscard]] bool lies_within(std::string_view path, std::string_view ancestor);

// Where a hierarchy is mounted below `mounts` ("/sys/fs/cgroup" on a host), by its controllers as CgroupLine has them.
[[nodiscard]] std::string cgroup_folder(const std::string& mounts, const std::string& controllers);

}  // namespace headgate::identity
