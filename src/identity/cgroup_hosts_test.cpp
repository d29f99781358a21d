// /proc/PID/cgroup under each engine on version 1, version 2 and hybrid hosts, and the identity it must give. Rows
// without an engine's cgroup are for engines that make none there.
#include <gtest/gtest.h>

#include <array>

#include "identity/cgroup.hpp"

namespace headgate::identity {
namespace {

const std::string kId = "4f797c539e6c" + std::string(52, '7');
const std::string kPodId = "9ec39b91f3d7" + std::string(52, '0');
constexpr const char* kUid = "1f0f3c5e-8a2b-4c3d-9e4f-5a6b7c8d9e0f";
constexpr const char* kUidInSlice = "1f0f3c5e_8a2b_4c3d_9e4f_5a6b7c8d9e0f";
const std::string kUser = "/user.slice/user-1000.slice/user@1000.service";

// In kernel order, highest hierarchy first. Only engines and schedulers use perf_event and cpuset: systemd leaves
// programs at their root, while most engines make a cgroup in them.
std::string version_1(const std::string& path, const std::string& systemd, const std::string& alone) {
  return "12:pids:" + path + "\n11:hugetlb:" + alone + "\n10:net_cls,net_prio:" + alone +
         "\n9:rdma:/\n8:memory:" + path + "\n7:cpuset:" + alone + "\n6:freezer:" + alone + "\n5:devices:" + path +
         "\n4:blkio:" + path + "\n3:perf_event:" + alone + "\n2:cpu,cpuacct:" + path + "\n1:name=systemd:" + systemd +
         "\n";
}
std::string version_1(const std::string& path) { return version_1(path, path, path); }
std::string version_2(const std::string& path) { return "0::" + path + "\n"; }
std::string hybrid(const std::string& path, const std::string& unified) { return version_1(path) + version_2(unified); }
// A unit's processes: systemd makes cgroups in the controllers it limits, and in name=systemd.
std::string unit_1(const std::string& path) { return version_1(path, path, "/"); }

struct Host {
  const char* engine;
  std::string text;
  Identity expected;
};

void check(const std::vector<Host>& hosts) {
  for (const Host& host : hosts) {
    const auto lines = parse_cgroup(host.text);
    ASSERT_TRUE(lines) << host.engine << ": " << lines.error().message;
    const Identity found = identify(*lines);
    EXPECT_TRUE(found == host.expected) << host.engine << "\n"
                                        << host.text << word(found.kind) << " id " << found.container_id << " engine "
                                        << found.engine << " pod " << found.pod_uid << " job " << found.job << "."
                                        << found.step << " unit " << found.unit << " machine " << found.machine
                                        << " uid " << (found.uid ? std::to_string(*found.uid) : "none");
  }
}

Identity container(Kind kind, std::string unit = {}, std::optional<std::uint32_t> uid = std::nullopt) {
  return {.kind = kind, .container_id = kId, .unit = std::move(unit), .uid = uid};
}
Identity pod(std::string engine) {
  return {.kind = Kind::kubernetes, .container_id = kId, .engine = std::move(engine), .pod_uid = kUid};
}
Identity unit(std::string name, std::optional<std::uint32_t> uid = std::nullopt) {
  return {.kind = Kind::systemd, .unit = std::move(name), .uid = uid};
}

// docs.docker.com, "Runtime metrics": /docker/ID with cgroupfs, system.slice/docker-ID.scope with systemd.
TEST(Hosts, Docker) {
  const std::string plain = "/docker/" + kId, scope = "/system.slice/docker-" + kId + ".scope";
  check({
      {"cgroupfs, v1", version_1(plain), container(Kind::docker)},
      {"cgroupfs, v2", version_2(plain), container(Kind::docker)},
      {"cgroupfs, hybrid, with a cgroup of version 2", hybrid(plain, plain), container(Kind::docker)},
      {"cgroupfs, hybrid, an older runc", hybrid(plain, "/system.slice/containerd.service"), container(Kind::docker)},
      {"systemd, v1", version_1(scope), container(Kind::docker)},
      {"systemd, v2", version_2(scope), container(Kind::docker)},
      {"systemd, hybrid", hybrid(scope, scope), container(Kind::docker)},
  });
}

// docs.docker.com, "Rootless mode": without version 2 there is no cgroup driver; containers stay in dockerd's cgroup.
TEST(Hosts, DockerWithoutRoot) {
  const std::string service = kUser + "/app.slice/docker.service";
  check({
      {"v1", version_1(kUser, service, "/"), unit("user@1000.service", 1000)},
      {"v2", version_2(kUser + "/user.slice/docker-" + kId + ".scope"),
       container(Kind::docker, "user@1000.service", 1000)},
      {"hybrid", version_1(kUser, service, "/") + version_2(service), unit("user@1000.service", 1000)},
  });
}

// podman-run(1), --cgroup-manager, --cgroups, --cgroup-parent. crun puts a container that may run systemd into
// "container" below its scope; conmon has a sibling scope.
TEST(Hosts, Podman) {
  const std::string scope = "/machine.slice/libpod-" + kId + ".scope", plain = "/libpod_parent/libpod-" + kId;
  const std::string in_pod = "/machine.slice/machine-libpod_pod_" + kPodId + ".slice/libpod-" + kId + ".scope";
  const Identity member = {.kind = Kind::podman, .container_id = kId, .pod_uid = kPodId};
  check({
      {"systemd, v1", version_1(scope), container(Kind::podman)},
      {"systemd, v2", version_2(scope + "/container"), container(Kind::podman)},
      {"systemd, hybrid", hybrid(scope, scope), container(Kind::podman)},
      {"cgroupfs, v1", version_1(plain), container(Kind::podman)},
      {"cgroupfs, v2", version_2(plain), container(Kind::podman)},
      {"cgroupfs, hybrid", hybrid(plain, "/"), container(Kind::podman)},
      {"a pod, v1", version_1(in_pod), member},
      {"a pod, v2", version_2(in_pod + "/container"), member},
      {"a pod, hybrid", hybrid(in_pod, in_pod), member},
      {"a pod, cgroupfs, v1", version_1("/libpod_parent/" + kPodId + "/libpod-" + kId), member},
      {"conmon, v1", version_1("/machine.slice/libpod-conmon-" + kId + ".scope"), container(Kind::podman)},
      {"conmon, cgroupfs, v1, which is not a container", version_1("/libpod_parent/conmon"), {}},
  });
}

// podman#6434: rootless podman makes cgroups only with version 2; otherwise containers stay in the user's session.
TEST(Hosts, PodmanWithoutRoot) {
  const std::string session = "/user.slice/user-1000.slice/session-3.scope";
  const std::string scope = kUser + "/user.slice/libpod-" + kId + ".scope";
  check({
      {"v1", unit_1(session), unit("session-3.scope", 1000)},
      {"v2", version_2(scope + "/container"), container(Kind::podman, "user@1000.service", 1000)},
      {"v2, conmon", version_2(kUser + "/user.slice/libpod-conmon-" + kId + ".scope"),
       container(Kind::podman, "user@1000.service", 1000)},
      {"v2, no systemd for the user", version_2("/user.slice/user-1000.slice/session-3.scope/libpod-payload-" + kId),
       container(Kind::podman, "session-3.scope", 1000)},
      {"hybrid", unit_1(session) + version_2(session), unit("session-3.scope", 1000)},
  });
}

// nerdctl's docs, "run --cgroup-parent": nerdctl-ID.scope with systemd, /NAMESPACE/ID with cgroupfs; nerdctl#223:
// rootless needs version 2. ctr uses a name chosen by the user, not an ID.
TEST(Hosts, Containerd) {
  const std::string scope = "/system.slice/nerdctl-" + kId + ".scope", plain = "/default/" + kId;
  const std::string service = kUser + "/app.slice/containerd.service";
  check({
      {"nerdctl, systemd, v1", version_1(scope), container(Kind::containerd)},
      {"nerdctl, systemd, v2", version_2(scope), container(Kind::containerd)},
      {"nerdctl, systemd, hybrid", hybrid(scope, scope), container(Kind::containerd)},
      {"nerdctl, cgroupfs, v1", version_1(plain), container(Kind::container)},
      {"nerdctl, cgroupfs, v2", version_2(plain), container(Kind::container)},
      {"nerdctl, cgroupfs, hybrid", hybrid(plain, "/system.slice/containerd.service"), container(Kind::container)},
      {"nerdctl without root, v1", version_1(kUser, service, "/"), unit("user@1000.service", 1000)},
      {"nerdctl without root, v2", version_2(kUser + "/user.slice/nerdctl-" + kId + ".scope"),
       container(Kind::containerd, "user@1000.service", 1000)},
      {"nerdctl without root, hybrid", version_1(kUser, service, "/") + version_2(service),
       unit("user@1000.service", 1000)},
      {"ctr, v1", version_1("/default/c1"), {}},
      {"ctr, v2", version_2("/default/c1"), {}},
  });
}

// kubernetes.io, "Container runtimes", cgroup drivers: slices write the pod's UID with '_' (systemd), directories write
// it unchanged (cgroupfs). CRI-O names containers crio-ID with both drivers, containerd only with systemd.
TEST(Hosts, Kubernetes) {
  const std::string slice =
      "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + std::string(kUidInSlice) + ".slice";
  const std::string folder = "/kubepods/burstable/pod" + std::string(kUid);
  for (const auto& [engine, name] : {std::pair<std::string, std::string>{"containerd", "cri-containerd-" + kId},
                                     {"crio", "crio-" + kId},
                                     {"docker", "docker-" + kId}}) {
    const std::string scope = slice + "/" + name + ".scope";
    check({
        {"systemd, v1", version_1(scope), pod(engine)},
        {"systemd, v2", version_2(scope), pod(engine)},
        {"systemd, hybrid", hybrid(scope, scope), pod(engine)},
        {"systemd, hybrid, version 2 unused", hybrid(scope, "/system.slice/kubelet.service"), pod(engine)},
        {"systemd, v2, below its scope", version_2(scope + "/container"), pod(engine)},
    });
  }
  const std::string crio = folder + "/crio-" + kId, other = folder + "/" + kId;
  const std::string beside = "/system.slice/crio-conmon-" + kId + ".scope";
  check({
      {"CRI-O, cgroupfs, v1", version_1(crio), pod("crio")},
      {"CRI-O, cgroupfs, v2", version_2(crio), pod("crio")},
      {"CRI-O, cgroupfs, hybrid", hybrid(crio, "/"), pod("crio")},
      {"CRI-O's conmon, cgroupfs, v1", version_1(folder + "/crio-conmon-" + kId), pod("crio")},
      {"CRI-O's conmon in its pod, v1", unit_1(slice + "/crio-conmon-" + kId + ".scope"), pod("crio")},
      {"CRI-O's conmon, v1", unit_1(beside), container(Kind::crio)},
      {"CRI-O's conmon, v2", version_2(beside), container(Kind::crio)},
      {"CRI-O's conmon, hybrid", unit_1(beside) + version_2(beside), container(Kind::crio)},
      {"containerd or Docker, cgroupfs, v1", version_1(other), pod("")},
      {"containerd or Docker, cgroupfs, v2", version_2(other), pod("")},
      {"containerd or Docker, cgroupfs, hybrid", hybrid(other, "/system.slice/containerd.service"), pod("")},
  });
}

// slurm.schedmd.com, cgroups.html and cgroup_v2.html. The version 1 plugin makes cgroups in the hierarchies it
// constrains and in freezer; elsewhere, as in a hybrid host's version 2, tasks stay in slurmd's cgroup.
TEST(Hosts, Slurm) {
  const std::string service = "/system.slice/slurmd.service";
  const auto slurm_1 = [&](const std::string& path) {
    return "12:pids:" + service + "\n8:memory:" + path + "/task_0\n7:cpuset:" + path + "\n6:freezer:" + path +
           "\n5:devices:" + path + "\n2:cpu,cpuacct:" + path + "/task_0\n1:name=systemd:" + service + "\n";
  };
  const auto job = [](std::string step, std::optional<std::uint32_t> uid = std::nullopt) {
    return Identity{.kind = Kind::slurm, .job = "4711", .step = std::move(step), .uid = uid};
  };
  const std::string step = "/slurm/uid_1000/job_4711/step_0", scope = "/system.slice/slurmstepd.scope/job_4711/step_";
  check({
      {"v1", slurm_1(step), job("0", 1000)},
      {"v1, batch, a node's name", slurm_1("/slurm_n01/uid_1000/job_4711/step_batch"), job("batch", 1000)},
      {"v2", version_2(scope + "0/user/task_3"), job("0")},
      {"v2, extern", version_2(scope + "extern/user/task_special"), job("extern")},
      {"v2, its own watcher", version_2(scope + "0/slurm"), job("0")},
      {"hybrid, the plugin of version 1", slurm_1(step) + version_2(service), job("0", 1000)},
      {"v2, podman in a job", version_2(scope + "0/user/task_0/libpod-payload-" + kId), container(Kind::podman)},
  });
}

// systemd.slice(5), systemd.scope(5), user@.service(5).
TEST(Hosts, Systemd) {
  const std::string service = "/system.slice/train.service", session = "/user.slice/user-1000.slice/session-3.scope";
  const std::string app = kUser + "/app.slice/jupyter.service", slice = "/gpu.slice/gpu-batch.slice/run-r5.scope";
  check({
      {"a service, v1", unit_1(service), unit("train.service")},
      {"a service, v2", version_2(service), unit("train.service")},
      {"a service, hybrid", unit_1(service) + version_2(service), unit("train.service")},
      {"a session, v1", unit_1(session), unit("session-3.scope", 1000)},
      {"a session, v2", version_2(session), unit("session-3.scope", 1000)},
      {"a session, hybrid", unit_1(session) + version_2(session), unit("session-3.scope", 1000)},
      {"a user's service, v1", version_1(kUser, app, "/"), unit("user@1000.service", 1000)},
      {"a user's service, v2", version_2(app), unit("jupyter.service", 1000)},
      {"a user's service, hybrid", version_1(kUser, app, "/") + version_2(app), unit("user@1000.service", 1000)},
      {"a scope in a separate slice, v1", unit_1(slice), unit("run-r5.scope")},
      {"a scope in a separate slice, v2", version_2(slice), unit("run-r5.scope")},
      {"a program of a run, v2", version_2(session + "/headgate-run-4711"), unit("session-3.scope", 1000)},
      {"a program of a run, hybrid", unit_1(session) + version_2(session + "/headgate-run-4711"),
       unit("session-3.scope", 1000)},
      {"a program of a run in a container, v2", version_2("/docker/" + kId + "/headgate-run-7"),
       container(Kind::docker)},
  });
}

// systemd-nspawn(1), --keep-unit, and systemd's CGROUP_DELEGATION: processes inside are below "payload" if version 2,
// or name=systemd on a hybrid host, is delegated.
TEST(Hosts, Nspawn) {
  const std::string scope = "/machine.slice/machine-lab\\x2dbook.scope";
  const std::string service = "/machine.slice/systemd-nspawn@lab\\x2dbook.service";
  const auto machine = [](std::string unit) {
    return Identity{.kind = Kind::nspawn, .unit = std::move(unit), .machine = "lab-book"};
  };
  check({
      {"v1", version_1(scope, scope + "/system.slice/cron.service", "/"), machine("")},
      {"v2", version_2(scope + "/payload/system.slice/cron.service"), machine("cron.service")},
      {"hybrid",
       version_1(scope, scope + "/payload/system.slice/cron.service", "/") +
           version_2(scope + "/payload/system.slice/cron.service"),
       machine("")},
      {"as a service, v1", version_1(service), machine("")},
      {"as a service, v2", version_2(service + "/payload/init.scope"), machine("init.scope")},
      {"as a service, hybrid", hybrid(service, service + "/payload"), machine("")},
  });
}

// Incus's documentation and lxc.container.conf(5): lxc.payload.NAME since LXC 4, /lxc/NAME before.
TEST(Hosts, Incus) {
  const Identity machine = {.kind = Kind::incus, .machine = "train"};
  check({
      {"v1", version_1("/lxc.payload.train"), machine},
      {"v1, before LXC 4", version_1("/lxc/train"), machine},
      {"v2", version_2("/lxc.payload.train/.lxc"), machine},
      {"hybrid", hybrid("/lxc.payload.train", "/lxc.payload.train"), machine},
  });
}

// A host without systemd, with engines started by hand: only the hierarchies they use reveal them.
TEST(Hosts, WithoutSystemd) {
  const auto text = [](const std::string& path) {
    return "9:name=systemd:" + path + "\n8:pids:" + path + "\n6:freezer:" + path + "\n4:memory:" + path + "\n0::/\n";
  };
  check({
      {"podman", text("/libpod_parent/libpod-" + kId), container(Kind::podman)},
      {"docker", text("/docker/" + kId), container(Kind::docker)},
      {"runc by hand, under a name", text("/train"), {}},
      {"runc by hand, under an id", text("/" + kId), container(Kind::container)},
  });
}

}  // namespace
}  // namespace headgate::identity
