#include "identity/cgroup.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/whole_number.hpp"

namespace headgate::identity {
namespace {

constexpr std::size_t kMaxLines = 64;  // kernels have about fourteen controllers

bool is_hex(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}
bool is_container_id(std::string_view text) { return text.size() == 64 && is_hex(text); }

// Returns the text between prefix and suffix; nothing if the text has another form.
std::optional<std::string_view> between(std::string_view text, std::string_view prefix, std::string_view suffix = {}) {
  if (text.size() <= prefix.size() + suffix.size() || !text.starts_with(prefix) || !text.ends_with(suffix))
    return std::nullopt;
  return text.substr(prefix.size(), text.size() - prefix.size() - suffix.size());
}

// Undoes systemd's escapes, such as "\x2d" for '-' (systemd.unit(5)).
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::uint8_t byte = 0;
    const std::string_view code = text.substr(i, 4);
    if (code.size() == 4 && code.starts_with("\\x") &&
        std::from_chars(code.data() + 2, code.data() + 4, byte, 16).ptr == code.data() + 4 && byte >= 0x20 &&
        byte < 0x7f) {
      out += static_cast<char>(byte);
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// Reads a pod's UID. kubelet writes '_' for '-' in slice names, where '-' separates slices; a static pod's UID is 32
// digits without either.
std::optional<std::string> pod_uid(std::string_view text) {
  std::string uid(text);
  std::ranges::replace(uid, '_', '-');
  const bool plain = uid.size() == 32 && is_hex(uid);
  const bool dashed = uid.size() == 36 && uid[8] == '-' && uid[13] == '-' && uid[18] == '-' && uid[23] == '-';
  if (!plain && !dashed) return std::nullopt;
  if (!std::ranges::all_of(uid, [](char c) { return c == '-' || is_hex({&c, 1}); })) return std::nullopt;
  return uid;
}

struct Engine {
  std::string_view prefix, suffix;
  Kind kind;
  std::string_view name;
};
// Names that engines give a container's cgroup: systemd's drivers, then plain ones. conmon, which monitors a container
// from a sibling cgroup, counts as part of it.
constexpr std::array kEngines = {
    Engine{"docker-", ".scope", Kind::docker, "docker"},
    Engine{"cri-containerd-", ".scope", Kind::containerd, "containerd"},
    Engine{"nerdctl-", ".scope", Kind::containerd, "containerd"},
    Engine{"containerd-", ".scope", Kind::containerd, "containerd"},
    Engine{"crio-conmon-", ".scope", Kind::crio, "crio"},
    Engine{"crio-", ".scope", Kind::crio, "crio"},
    Engine{"crio-conmon-", "", Kind::crio, "crio"},
    Engine{"crio-", "", Kind::crio, "crio"},
    Engine{"libpod-conmon-", ".scope", Kind::podman, "podman"},
    Engine{"libpod-payload-", "", Kind::podman, "podman"},
    Engine{"libpod-", ".scope", Kind::podman, "podman"},
    Engine{"libpod-", "", Kind::podman, "podman"},
};

// Reads a path from the outermost name inward; each name may add to what is known, or start a new inner entity.
class PathReader {
 public:
  Identity read(std::string_view path) {
    constexpr std::string_view kDeleted = " (deleted)";
    if (path.ends_with(kDeleted)) path.remove_suffix(kDeleted.size());
    while (!path.empty()) {
      const std::size_t slash = std::min(path.find('/'), path.size());
      name(path.substr(0, slash));
      path.remove_prefix(std::min(slash + 1, path.size()));
    }
    return out_;
  }

 private:
  void name(std::string_view text) {
    if (text.empty() || text == "..") return;
    [[maybe_unused]] const bool known = pod(text) || container(text) || slurm(text) || machine(text) || unit(text);
    parent_ = text;
  }

  // Starts an inner entity and drops what is known of an outer container. Keeps the user, and the unit if it is more
  // than a slice.
  void begin(Kind kind) {
    Identity inner;
    inner.kind = kind;
    inner.uid = out_.uid;
    if (out_.kind == Kind::systemd && !out_.unit.ends_with(".slice")) inner.unit = out_.unit;
    out_ = std::move(inner);
  }

  bool pod(std::string_view text) {
    // Names below another slice (kind's nodes have kubelet.slice) carry that slice as a prefix.
    if (const auto at = text.find("-kubepods"); at != text.npos && text.starts_with("kubelet"))
      text.remove_prefix(at + 1);
    // kubepods[-QOS]-podUID.slice, possibly followed by ":cri-containerd:ID"; or podUID in a directory of kubepods.
    if (const auto colon = text.find(".slice:"); colon != text.npos && text.starts_with("kubepods")) {
      const std::string_view rest = text.substr(colon + 7);
      if (!pod(text.substr(0, colon + 6)) || rest.find(':') == rest.npos) return false;
      out_.engine = rest.starts_with("cri-containerd:") ? "containerd"
                    : rest.starts_with("crio:")         ? "crio"
                    : rest.starts_with("docker:")       ? "docker"
                                                        : "";
      const std::string_view id = rest.substr(rest.find(':') + 1);
      if (is_container_id(id)) out_.container_id = id;
      return true;
    }
    if (text == "kubepods" || text == "kubepods.slice") return in_kubepods_ = true;
    if (!in_kubepods_ && !text.starts_with("kubepods-")) return false;
    std::optional<std::string_view> uid = between(text, "pod");
    if (const auto slice = between(text, "kubepods-", ".slice")) {
      in_kubepods_ = true;
      if (const auto at = slice->find("pod"); at != slice->npos && (at == 0 || (*slice)[at - 1] == '-'))
        uid = slice->substr(at + 3);
      else return true;  // a QoS class: besteffort, burstable
    }
    if (!uid) return text == "besteffort" || text == "burstable" || text == "guaranteed";
    const auto good = pod_uid(*uid);
    if (!good) return false;
    begin(Kind::kubernetes);
    out_.pod_uid = *good;
    return true;
  }

  bool container(std::string_view text) {
    if (const auto id = between(text, "machine-libpod_pod_", ".slice"); id && is_container_id(*id))
      return podman_pod(*id);
    if (const auto id = between(text, "user-libpod_pod_", ".slice"); id && is_container_id(*id)) return podman_pod(*id);
    for (const Engine& engine : kEngines) {
      const auto id = between(text, engine.prefix, engine.suffix);
      if (id && is_container_id(*id)) return contained(*id, engine.kind, engine.name);
    }
    if (!is_container_id(text)) return false;
    if (parent_ == "docker") return contained(text, Kind::docker, "docker");
    if (parent_ == "libpod_parent") return podman_pod(text);
    return contained(text, Kind::container, "");
  }

  bool podman_pod(std::string_view id) {
    begin(Kind::podman);
    out_.pod_uid = id;
    pod_scope_ = true;
    return true;
  }

  bool contained(std::string_view id, Kind kind, std::string_view engine) {
    const bool in_pod = out_.kind == Kind::kubernetes && out_.container_id.empty();
    const bool in_podman_pod = kind == Kind::podman && pod_scope_;
    if (!in_pod && !in_podman_pod) begin(kind);
    if (in_pod) out_.engine = engine;
    pod_scope_ = false;
    in_kubepods_ = false;
    out_.container_id = id;
    return true;
  }

  bool slurm(std::string_view text) {
    if (text == "slurm" || text.starts_with("slurm_") || text == "slurmstepd.scope" ||
        text.ends_with("_slurmstepd.scope"))
      return in_slurm_ = true;
    if (!in_slurm_) return false;
    if (const auto uid = between(text, "uid_")) {
      out_.uid = whole_number<std::uint32_t>(*uid);
      return true;
    }
    if (const auto job = between(text, "job_"); job && whole_number<std::uint64_t>(*job)) {
      begin(Kind::slurm);
      out_.job = *job;
      return true;
    }
    if (const auto step = between(text, "step_"); step && out_.kind == Kind::slurm) {
      out_.step = *step;
      return true;
    }
    return false;
  }

  bool machine(std::string_view text) {
    for (const std::string_view prefix : {"lxc.payload.", "lxc.monitor."}) {
      if (const auto found = between(text, prefix)) return machine_of(Kind::incus, *found);
    }
    if (parent_ == "lxc") return machine_of(Kind::incus, text);
    if (const auto found = between(text, "systemd-nspawn@", ".service"))
      return machine_of(Kind::nspawn, unescaped(*found));
    // libvirt's virtual machines match too, but none of their processes can use our socket.
    const auto found = between(text, "machine-", ".scope");
    if (!found || found->starts_with("qemu\\x2d") || found->starts_with("lxc\\x2d")) return false;
    return machine_of(Kind::nspawn, unescaped(*found));
  }

  bool machine_of(Kind kind, std::string_view name) {
    begin(kind);
    out_.machine = name;
    return true;
  }

  bool unit(std::string_view text) {
    if (const auto uid = between(text, "user-", ".slice")) {
      if (const auto known = whole_number<std::uint32_t>(*uid)) out_.uid = known;
    }
    if (!text.ends_with(".service") && !text.ends_with(".scope") && !text.ends_with(".socket") &&
        !text.ends_with(".slice"))
      return false;
    // Units of a container's own init only say where inside the container the process runs.
    if (out_.kind == Kind::host) out_.kind = Kind::systemd;
    // A slice only contains units, so any later name of another unit replaces it.
    const bool is_slice = text.ends_with(".slice");
    if (!is_slice || out_.unit.empty() || out_.unit.ends_with(".slice")) out_.unit = text;
    return true;
  }

  Identity out_;
  std::string_view parent_;
  bool in_kubepods_ = false, in_slurm_ = false, pod_scope_ = false;
};

// Ranks kinds by how specific they are.
int weight(const Identity& identity) {
  if (identity.kind == Kind::host) return 0;
  if (identity.kind == Kind::systemd) return 1;
  return identity.container_id.empty() && identity.machine.empty() && identity.job.empty() ? 2 : 3;
}

int preference(const CgroupLine& line) {
  if (line.controllers == "pids") return 0;
  if (line.controllers == "name=systemd") return 1;
  return line.hierarchy == 0 ? 2 : 3;
}

Error bad_line(std::size_t index, std::string_view what) {
  return {ErrorCode::failed, "line " + std::to_string(index) + " of /proc/PID/cgroup " + std::string(what),
          "expected HIERARCHY:CONTROLLERS:PATH, as in cgroups(7)"};
}

}  // namespace

std::string_view word(Kind kind) {
  constexpr std::array<std::string_view, 11> kWords = {"host",    "docker",    "podman",     "containerd",
                                                       "crio",    "container", "kubernetes", "slurm",
                                                       "systemd", "nspawn",    "incus"};
  const auto index = static_cast<std::size_t>(kind);
  return index < kWords.size() ? kWords[index] : "unknown";
}

Result<std::vector<CgroupLine>> parse_cgroup(std::string_view text) {
  std::vector<CgroupLine> lines;
  for (std::size_t index = 1; !text.empty(); ++index) {
    if (index > kMaxLines)
      return std::unexpected(bad_line(index, "is one too many: a kernel has at most " + std::to_string(kMaxLines)));
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) return std::unexpected(bad_line(index, "has fewer than two ':'"));
    const auto hierarchy = whole_number<std::uint32_t>(line.substr(0, first));
    if (!hierarchy) return std::unexpected(bad_line(index, "does not begin with a hierarchy's number"));
    const std::string_view path = line.substr(second + 1);
    // A path may contain ':' and blanks; a kernel never writes a NUL or omits the leading '/'.
    if (!path.starts_with('/') || path.find('\0') != path.npos)
      return std::unexpected(bad_line(index, "has no absolute path"));
    lines.push_back({*hierarchy, std::string(line.substr(first + 1, second - first - 1)), std::string(path)});
  }
  return lines;
}

Identity identify(std::string_view path) { return PathReader().read(path); }

Identity identify(std::span<const CgroupLine> lines) {
  Identity best;
  int best_weight = -1, best_preference = 0;
  for (const CgroupLine& line : lines) {
    const Identity found = identify(line.path);
    const int found_weight = weight(found), found_preference = preference(line);
    if (found_weight < best_weight || (found_weight == best_weight && found_preference >= best_preference)) continue;
    best = found;
    best_weight = found_weight;
    best_preference = found_preference;
  }
  return best;
}

bool lies_within(std::string_view path, std::string_view ancestor) {
  while (ancestor.size() > 1 && ancestor.ends_with('/')) ancestor.remove_suffix(1);
  if (ancestor == "/") return path.starts_with('/');
  return path.starts_with(ancestor) && (path.size() == ancestor.size() || path[ancestor.size()] == '/');
}

std::string cgroup_folder(const std::string& mounts, const std::string& controllers) {
  if (!controllers.empty())
    return mounts + "/" + (controllers.starts_with("name=") ? controllers.substr(5) : controllers);
  struct stat unified{};  // exists on hybrid hosts
  return ::stat((mounts + "/unified").c_str(), &unified) == 0 ? mounts + "/unified" : mounts;
}

}  // namespace headgate::identity
