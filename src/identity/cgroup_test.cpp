#include "identity/cgroup.hpp"

#include <gtest/gtest.h>

namespace headgate::identity {
namespace {

const std::string kId(64, 'a');
const std::string kOther = std::string(63, '0') + "1";
constexpr const char* kPod = "1f0f3c5e-8a2b-4c3d-9e4f-5a6b7c8d9e0f";
constexpr const char* kPodInSlice = "1f0f3c5e_8a2b_4c3d_9e4f_5a6b7c8d9e0f";

Identity of(const std::string& text) {
  const auto lines = parse_cgroup(text);
  if (!lines) ADD_FAILURE() << lines.error().message;
  return identify(*lines);
}

struct Fixture {
  const char* host;  // the host it was recorded on
  std::string text;
  Identity expected;
};

Identity container(Kind kind, std::string unit = {}, std::optional<std::uint32_t> uid = std::nullopt) {
  return {.kind = kind, .container_id = kId, .unit = std::move(unit), .uid = uid};
}
Identity pod(std::string engine) {
  return {.kind = Kind::kubernetes, .container_id = kId, .engine = std::move(engine), .pod_uid = kPod};
}

std::vector<Fixture> engines() {
  const std::string user = "/user.slice/user-1000.slice/user@1000.service";
  return {
      {"docker, v1, cgroupfs",
       "12:pids:/docker/" + kId + "\n1:name=systemd:/docker/" + kId + "\n0::/system.slice/containerd.service\n",
       container(Kind::docker)},
      {"docker, v2, systemd driver", "0::/system.slice/docker-" + kId + ".scope\n", container(Kind::docker)},
      {"docker, hybrid",
       "9:memory:/docker/" + kId + "\n8:pids:/docker/" + kId + "\n1:name=systemd:/docker/" + kId + "\n0::/docker/" +
           kId + "\n",
       container(Kind::docker)},
      {"docker, --cgroup-parent, cgroupfs", "0::/batch/" + kId + "\n", container(Kind::container)},
      {"docker, --cgroup-parent, systemd", "0::/batch.slice/docker-" + kId + ".scope\n", container(Kind::docker)},
      {"rootless docker", "0::" + user + "/user.slice/docker-" + kId + ".scope\n",
       container(Kind::docker, "user@1000.service", 1000)},
      {"podman, rootful", "0::/machine.slice/libpod-" + kId + ".scope/container\n", container(Kind::podman)},
      {"podman, rootful, v1",
       "12:pids:/machine.slice/libpod-" + kId + ".scope\n1:name=systemd:/machine.slice/libpod-" + kId + ".scope\n",
       container(Kind::podman)},
      {"podman, rootless", "0::" + user + "/user.slice/libpod-" + kId + ".scope/container\n",
       container(Kind::podman, "user@1000.service", 1000)},
      {"podman, in a pod",
       "0::/machine.slice/machine-libpod_pod_" + kOther + ".slice/libpod-" + kId + ".scope/container\n",
       {.kind = Kind::podman, .container_id = kId, .pod_uid = kOther}},
      {"podman, rootless, in a pod",
       "0::" + user + "/user.slice/user-libpod_pod_" + kOther + ".slice/libpod-" + kId + ".scope/container\n",
       {.kind = Kind::podman, .container_id = kId, .pod_uid = kOther, .unit = "user@1000.service", .uid = 1000}},
      {"podman, cgroups=split", "0::/system.slice/train.service/libpod-payload-" + kId + "\n",
       container(Kind::podman, "train.service")},
      {"podman, cgroupfs manager", "0::/libpod_parent/libpod-" + kId + "\n", container(Kind::podman)},
      {"podman, cgroupfs manager, pod",
       "0::/libpod_parent/" + kOther + "/libpod-" + kId + "\n",
       {.kind = Kind::podman, .container_id = kId, .pod_uid = kOther}},
      {"podman's watcher", "0::/machine.slice/libpod-conmon-" + kId + ".scope\n", container(Kind::podman)},
      {"podman, cgroups=disabled",
       "0::" + user + "/app.slice/run-u7.scope\n",
       {.kind = Kind::systemd, .unit = "run-u7.scope", .uid = 1000}},
      {"nerdctl, systemd", "0::/system.slice/nerdctl-" + kId + ".scope\n", container(Kind::containerd)},
      {"nerdctl, cgroupfs", "0::/default/" + kId + "\n", container(Kind::container)},
      {"CRI-O, outside pods", "0::/system.slice/crio-" + kId + ".scope\n", container(Kind::crio)},
      {"systemd inside a container", "0::/system.slice/docker-" + kId + ".scope/system.slice/nginx.service\n",
       container(Kind::docker, "nginx.service")},
      {"docker in docker", "0::/system.slice/docker-" + kOther + ".scope/docker/" + kId + "\n",
       container(Kind::docker)},
      {"a removed cgroup", "0::/system.slice/docker-" + kId + ".scope (deleted)\n", container(Kind::docker)},
      {"a daemon in its own cgroup namespace", "0::/../docker-" + kId + ".scope\n", container(Kind::docker)},
  };
}

std::vector<Fixture> orchestrators() {
  const std::string slices =
      "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + std::string(kPodInSlice) + ".slice";
  const std::string folders = "/kubepods/besteffort/pod" + std::string(kPod);
  return {
      {"kubernetes, containerd, systemd", "0::" + slices + "/cri-containerd-" + kId + ".scope\n", pod("containerd")},
      {"kubernetes, containerd, cgroupfs", "11:pids:" + folders + "/" + kId + "\n", pod("")},
      {"kubernetes, guaranteed",
       "0::/kubepods.slice/kubepods-pod" + std::string(kPodInSlice) + ".slice/cri-containerd-" + kId + ".scope\n",
       pod("containerd")},
      {"kubernetes, cgroupfs, guaranteed", "0::/kubepods/pod" + std::string(kPod) + "/" + kId + "\n", pod("")},
      {"kubernetes, CRI-O, systemd", "0::" + slices + "/crio-" + kId + ".scope\n", pod("crio")},
      {"kubernetes, CRI-O, with a sub-cgroup", "0::" + slices + "/crio-" + kId + ".scope/container\n", pod("crio")},
      {"kubernetes, CRI-O, cgroupfs", "0::" + folders + "/crio-" + kId + "\n", pod("crio")},
      {"kubernetes, docker", "0::" + slices + "/docker-" + kId + ".scope\n", pod("docker")},
      {"kubernetes, drivers that disagree",
       "0::/system.slice/containerd.service/kubepods-burstable-pod" + std::string(kPodInSlice) +
           ".slice:cri-containerd:" + kId + "\n",
       {.kind = Kind::kubernetes,
        .container_id = kId,
        .engine = "containerd",
        .pod_uid = kPod,
        .unit = "containerd.service"}},
      {"kind",
       "0::/docker/" + kOther + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" +
           std::string(kPodInSlice) + ".slice/cri-containerd-" + kId + ".scope\n",
       pod("containerd")},
      {"kubernetes, a static pod",
       "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + std::string(32, 'b') +
           ".slice/cri-containerd-" + kId + ".scope\n",
       {.kind = Kind::kubernetes, .container_id = kId, .engine = "containerd", .pod_uid = std::string(32, 'b')}},
      {"slurm, v1",
       "10:pids:/slurm/uid_1000/job_4711/step_0/task_3\n1:name=systemd:/system.slice/slurmd.service\n0::/\n",
       {.kind = Kind::slurm, .job = "4711", .step = "0", .uid = 1000}},
      {"slurm, v1, named nodes",
       "10:memory:/slurm_n01/uid_1000/job_4711/step_batch\n",
       {.kind = Kind::slurm, .job = "4711", .step = "batch", .uid = 1000}},
      {"slurm, v2",
       "0::/system.slice/slurmstepd.scope/job_4711/step_extern/user/task_special\n",
       {.kind = Kind::slurm, .job = "4711", .step = "extern"}},
      {"slurm, v2, named nodes",
       "0::/system.slice/n01_slurmstepd.scope/job_4711/step_interactive/user/task_0\n",
       {.kind = Kind::slurm, .job = "4711", .step = "interactive"}},
      {"a container in a job", "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0/libpod-" + kId + "\n",
       container(Kind::podman)},
  };
}

std::vector<Fixture> hosts() {
  return {
      {"a login session",
       "0::/user.slice/user-1000.slice/session-3.scope\n",
       {.kind = Kind::systemd, .unit = "session-3.scope", .uid = 1000}},
      {"a user's service",
       "0::/user.slice/user-1000.slice/user@1000.service/app.slice/jupyter.service\n",
       {.kind = Kind::systemd, .unit = "jupyter.service", .uid = 1000}},
      {"a system service, hybrid",
       "12:pids:/system.slice/ssh.service\n4:devices:/\n1:name=systemd:/system.slice/ssh.service\n0::/\n",
       {.kind = Kind::systemd, .unit = "ssh.service"}},
      {"a slice alone", "0::/machines.slice\n", {.kind = Kind::systemd, .unit = "machines.slice"}},
      {"nspawn",
       "0::/machine.slice/machine-deb\\x2d12.scope/payload/system.slice/cron.service\n",
       {.kind = Kind::nspawn, .unit = "cron.service", .machine = "deb-12"}},
      {"nspawn as a service",
       "0::/machine.slice/systemd-nspawn@deb.service/payload\n",
       {.kind = Kind::nspawn, .machine = "deb"}},
      {"Incus",
       "0::/lxc.payload.train/system.slice/foo.service\n",
       {.kind = Kind::incus, .unit = "foo.service", .machine = "train"}},
      {"Incus, a project", "0::/lxc.payload.lab_train/.lxc\n", {.kind = Kind::incus, .machine = "lab_train"}},
      {"LXC, old", "5:pids:/lxc/train\n", {.kind = Kind::incus, .machine = "train"}},
      {"private cgroup namespace", "0::/\n", {}},
      {"nothing", "", {}},
      {"a virtual machine is not a container",
       "0::/machine.slice/machine-qemu\\x2d1\\x2dvm.scope\n",
       {.kind = Kind::systemd, .unit = "machine-qemu\\x2d1\\x2dvm.scope"}},
      {"a name that only looks like a container", "0::/docker/short\n", {}},
      {"a pod without a uid",
       "0::/kubepods.slice/kubepods-podxyz.slice\n",
       {.kind = Kind::systemd, .unit = "kubepods-podxyz.slice"}},
  };
}

void check(const std::vector<Fixture>& fixtures) {
  for (const Fixture& fixture : fixtures) {
    const Identity found = of(fixture.text);
    EXPECT_TRUE(found == fixture.expected)
        << fixture.host << ": " << word(found.kind) << " id " << found.container_id << " engine " << found.engine
        << " pod " << found.pod_uid << " job " << found.job << "." << found.step << " unit " << found.unit
        << " machine " << found.machine << " uid " << (found.uid ? std::to_string(*found.uid) : "none");
  }
}

TEST(Cgroups, AContainerHasItsFullIdUnderEveryEngine) { check(engines()); }
TEST(Cgroups, APodAndAJobHaveTheirSchedulersNames) { check(orchestrators()); }
TEST(Cgroups, UnitsUsersAndMachinesAreRecognisedOnlyIfPresent) { check(hosts()); }

TEST(Cgroups, LinesThatNoKernelWritesAreRefusedByNumber) {
  const struct {
    std::string text, message;
  } kBad[] = {
      {"x", "line 1 of /proc/PID/cgroup has fewer than two ':'"},
      {"0:/", "line 1 of /proc/PID/cgroup has fewer than two ':'"},
      {"0::/a\n\n", "line 2 of /proc/PID/cgroup has fewer than two ':'"},
      {"::/a", "line 1 of /proc/PID/cgroup does not begin with a hierarchy's number"},
      {"-1::/a", "line 1 of /proc/PID/cgroup does not begin with a hierarchy's number"},
      {"99999999999::/a", "line 1 of /proc/PID/cgroup does not begin with a hierarchy's number"},
      {"0::a", "line 1 of /proc/PID/cgroup has no absolute path"},
      {"0::", "line 1 of /proc/PID/cgroup has no absolute path"},
      {std::string("0::/a\0b", 7), "line 1 of /proc/PID/cgroup has no absolute path"},
  };
  for (const auto& bad : kBad) {
    const auto lines = parse_cgroup(bad.text);
    ASSERT_FALSE(lines) << bad.text;
    EXPECT_EQ(lines.error().message, bad.message);
    EXPECT_EQ(lines.error().hint, "expected HIERARCHY:CONTROLLERS:PATH, as in cgroups(7)");
  }
  std::string many;
  for (int i = 0; i < 65; ++i) many += "1:a:/\n";
  EXPECT_EQ(parse_cgroup(many).error().message, "line 65 of /proc/PID/cgroup is one too many: a kernel has at most 64");
  EXPECT_EQ(parse_cgroup("3:cpu,cpuacct:/a:b c\n")->at(0), (CgroupLine{3, "cpu,cpuacct", "/a:b c"}));
}

TEST(Cgroups, APathContainsAnotherByWholeNames) {
  for (const char* path : {"/job", "/job/", "/job/inner/system.slice/x.service"})
    EXPECT_TRUE(lies_within(path, "/job")) << path;
  for (const char* path : {"/jobs", "/", "", "/other/job"}) EXPECT_FALSE(lies_within(path, "/job")) << path;
  EXPECT_TRUE(lies_within("/job", "/job/"));
  EXPECT_TRUE(lies_within("/job", "/"));
  EXPECT_FALSE(lies_within("job", "/"));
}

}  // namespace
}  // namespace headgate::identity
