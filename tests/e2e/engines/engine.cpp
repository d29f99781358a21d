#include "engine.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "podman.hpp"

namespace headgate::e2e {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kUnified = "/sys/fs/cgroup/unified";

std::string quoted(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += "'" + word + "' ";
  return line;
}

// Runs the OCI runtime directly, with a hand-written bundle.
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
  // crun refuses hybrid hosts. Without the version 2 mount it sees a version 1 host.
  [[nodiscard]] bool is_apart() const { return name_ == "crun" && ::access(kUnified, F_OK) == 0; }
  [[nodiscard]] std::string inside(const std::string& line) const {
    return is_apart() ? std::string("unshare -m sh -c \"umount ") + kUnified + " && exec " + line + "\"" : line;
  }

  std::string name_, id_ = new_container_id();
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

// The cgroups of an ending container are removed as soon as they are empty.
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
