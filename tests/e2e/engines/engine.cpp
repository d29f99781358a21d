#include "engine.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace headgate::e2e {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr unsigned kNobody = 65534;
constexpr const char* kUnified = "/sys/fs/cgroup/unified";

std::string quoted(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += "'" + word + "' ";
  return line;
}

// The runtime by itself, with a bundle written by hand.
class Runtime : public Engine {
 public:
  explicit Runtime(std::string name) : name_(std::move(name)) {}
  ~Runtime() override {
    [[maybe_unused]] const int removed = std::system(
        (inside(quoted({program(), "--root", state(), "delete", "--force", id_})) + " 2>/dev/null").c_str());
    remove_cgroups();
  }
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  [[nodiscard]] std::string lacks() const override {
    if (::access(program().c_str(), X_OK) != 0) return "there is no " + program();
    if (::geteuid() != 0) return "only root may run it by itself";
    if (::access("/sys/fs/cgroup", W_OK) != 0) return "there are no cgroups to be made here";
    return {};
  }

  [[nodiscard]] std::vector<std::string> line(const std::vector<Mount>& mounts,
                                              const std::vector<std::string>& environment,
                                              const std::vector<std::string>& words) override {
    Json all = Json::array({{{"destination", "/proc"}, {"type", "proc"}, {"source", "proc"}},
                            {{"destination", "/dev"}, {"type", "tmpfs"}, {"source", "tmpfs"}}});
    for (const Mount& mount : mounts) {
      all.push_back({{"destination", mount.to},
                     {"type", "bind"},
                     {"source", mount.from},
                     {"options", {"rbind", mount.writable ? "rw" : "ro"}}});
    }
    std::vector<std::string> variables = environment;
    variables.emplace_back("PATH=/usr/bin:/bin");
    const Json config = {
        {"ociVersion", "1.0.2"},
        {"root", {{"path", tree(mounts)}, {"readonly", true}}},
        {"process",
         {{"terminal", false},
          {"user", {{"uid", 0}, {"gid", 0}}},
          {"args", words},
          {"env", variables},
          {"cwd", "/"},
          {"noNewPrivileges", true}}},
        {"mounts", all},
        {"linux",
         {{"cgroupsPath", cgroup() + "/" + id_},
          {"namespaces", {{{"type", "pid"}}, {{"type", "mount"}}, {{"type", "ipc"}}, {{"type", "network"}}}}}}};
    std::ofstream(path() + "/config.json") << config.dump();
    const std::vector<std::string> run = {program(), "--root", state(), "run", "--bundle", path(), id_};
    if (!is_apart()) return run;
    return {"/bin/sh", "-c", "exec " + inside(quoted(run))};
  }

  [[nodiscard]] std::string where() const override { return "container " + id_.substr(0, 12); }

 private:
  [[nodiscard]] std::string program() const { return (name_ == "runc" ? "/usr/sbin/" : "/usr/bin/") + name_; }
  [[nodiscard]] std::string state() const { return path() + "/state"; }
  // crun refuses hybrid hosts; without the mount of version 2 it sees one of version 1.
  [[nodiscard]] bool is_apart() const { return name_ == "crun" && ::access(kUnified, F_OK) == 0; }
  [[nodiscard]] std::string inside(const std::string& line) const {
    return is_apart() ? std::string("unshare -m sh -c \"umount ") + kUnified + " && exec " + line + "\"" : line;
  }

  std::string name_, id_ = new_container_id();
};

class Podman : public Engine {
 public:
  explicit Podman(bool rootless) : rootless_(rootless) {
    for (const char* each : {"root", "run", "tmp", "home", "xdg"}) fs::create_directories(path() + "/" + each);
    // No locks in /dev/shm, no journal; limits that need no raising, which a container of ours may not.
    std::ofstream(path() + "/containers.conf")
        << "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n"
           "[engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\nlock_type = \"file\"\n"
           "runtime = \"runc\"\n";
    ::chmod((path() + "/xdg").c_str(), 0700);
  }
  ~Podman() override {
    if (!lacks().empty()) return;
    // The second ends the process that keeps a user's namespaces.
    for (const char* words : {"rm --force --all --time 0", "system migrate"}) [[maybe_unused]]
      const int done = std::system((quoted(command()) + words + " >/dev/null 2>&1").c_str());
    remove_cgroups();
  }
  Podman(const Podman&) = delete;
  Podman& operator=(const Podman&) = delete;

  [[nodiscard]] std::string lacks() const override {
    if (::access("/usr/bin/podman", X_OK) != 0) return "there is no /usr/bin/podman";
    if (::access("/usr/sbin/runc", X_OK) != 0) return "there is no /usr/sbin/runc";
    if (::geteuid() != 0) return "only root may run it, and become the user who runs it";
    if (::access("/sys/fs/cgroup", W_OK) != 0) return "there are no cgroups to be made here";
    return {};
  }

  [[nodiscard]] std::vector<std::string> line(const std::vector<Mount>& mounts,
                                              const std::vector<std::string>& environment,
                                              const std::vector<std::string>& words) override {
    const std::string rootfs = tree(mounts);
    if (rootless_) {
      [[maybe_unused]] const int given = std::system(("chown -R 65534:65534 '" + path() + "'").c_str());
    }
    std::vector<std::string> all = command();
    all.insert(all.end(),
               {"run", "--rm", "--interactive", "--network=none", "--log-driver=none", "--cidfile=" + path() + "/id"});
    if (!rootless_) all.insert(all.end(), {"--cgroup-parent", cgroup()});
    for (const Mount& mount : mounts)
      all.push_back("--volume=" + mount.from + ":" + mount.to + (mount.writable ? "" : ":ro"));
    for (const std::string& variable : environment) all.push_back("--env=" + variable);
    all.insert(all.end(), {"--rootfs", rootfs});
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }

  // podman#6434: without root it makes no cgroups where version 2 does not rule alone.
  [[nodiscard]] std::string where() const override {
    std::string id;
    std::ifstream(path() + "/id") >> id;
    const bool shown = !rootless_ || ::access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;
    return shown ? "podman " + id.substr(0, 12) : std::string();
  }

  [[nodiscard]] unsigned user() const override { return rootless_ ? kNobody : 0; }

 private:
  [[nodiscard]] std::vector<std::string> command() const {
    std::vector<std::string> words = {"/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                                      "HOME=" + path() + "/home", "CONTAINERS_CONF=" + path() + "/containers.conf"};
    if (rootless_) words.push_back("XDG_RUNTIME_DIR=" + path() + "/xdg");
    if (rootless_) words.insert(words.end(), {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"});
    words.insert(words.end(), {"podman", "--root", path() + "/root", "--runroot", path() + "/run", "--tmpdir",
                               path() + "/tmp", "--storage-driver", "vfs"});
    return words;
  }

  bool rootless_;
};

}  // namespace

std::string new_container_id() {
  static std::atomic<unsigned> count{0};
  char start[40];
  std::snprintf(start, sizeof start, "c0ffee%010x%08x", static_cast<unsigned>(::getpid()), ++count);
  return start + std::string(40, '7');
}

Engine::Engine() : cgroup_("/" + fs::path(directory_.path()).filename().string()) {
  ::chmod(directory_.path().c_str(), 0711);
}

std::string Engine::tree(const std::vector<Mount>& mounts) const {
  const std::string root = path() + "/rootfs";
  for (const char* each : {"/proc", "/sys", "/dev", "/tmp", "/run", "/etc"}) fs::create_directories(root + each);
  for (const char* each : {"/bin", "/sbin", "/lib", "/lib64"}) {
    if (fs::is_symlink(each)) fs::copy_symlink(each, root + each);
  }
  for (const Mount& mount : mounts) {
    const fs::path place = root + mount.to;
    fs::create_directories(fs::is_directory(mount.from) ? place : place.parent_path());
    if (!fs::is_directory(mount.from)) std::ofstream(place).flush();
  }
  return root;
}

// Of a container that is just ending: as soon as it is empty.
void Engine::remove_cgroups() const {
  const std::string line = "for i in 1 2 3 4 5 6 7 8 9 10; do all=$(find /sys/fs/cgroup" + cgroup_ +
                           " /sys/fs/cgroup/*" + cgroup_ + " -depth -type d 2>/dev/null); [ -n \"$all\" ] || break; " +
                           "rmdir $all 2>/dev/null || sleep 0.1; done";
  [[maybe_unused]] const int removed = std::system(line.c_str());
}

std::unique_ptr<Engine> make_engine(const std::string& name) {
  if (name == "docker") return make_docker();
  if (name == "containerd") return make_containerd();
  if (name == "podman" || name == "rootless podman") return std::make_unique<Podman>(name != "podman");
  return std::make_unique<Runtime>(name);
}

}  // namespace headgate::e2e
