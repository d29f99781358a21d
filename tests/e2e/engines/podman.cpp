#include "podman.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace headgate::e2e {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kNobody = 65534;

std::string shell_words(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += "'" + word + "' ";
  return line;
}

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace

Podman::Podman(bool rootless) : rootless_(rootless) {
  for (const char* each : {"root", "run", "tmp", "home", "xdg"}) fs::create_directories(path() + "/" + each);
  // No locks in /dev/shm and no journal. Limits are low enough to set without raising, which our container may not do.
  std::ofstream(path() + "/containers.conf")
      << "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n"
         "[engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\nlock_type = \"file\"\n"
         "runtime = \"runc\"\n";
  ::chmod((path() + "/xdg").c_str(), 0700);
}

Podman::~Podman() {
  if (!lacks().empty()) return;
  // The second command ends the process that keeps a user's namespaces open.
  for (const char* words : {"rm --force --all --time 0", "system migrate"}) [[maybe_unused]]
    const int done = std::system((shell_words(command()) + words + " >/dev/null 2>&1").c_str());
  remove_cgroups();
}

std::string Podman::lacks() const {
  if (::access("/usr/bin/podman", X_OK) != 0) return "there is no /usr/bin/podman";
  if (::access("/usr/sbin/runc", X_OK) != 0) return "there is no /usr/sbin/runc";
  if (::geteuid() != 0) return "only root may run it, also as another user";
  if (::access("/sys/fs/cgroup", W_OK) != 0) return "there are no cgroups to be made here";
  return {};
}

std::vector<std::string> Podman::run_options() const {
  std::vector<std::string> all = {"--network=none", "--log-driver=none"};
  if (!rootless_) append(all, {"--cgroup-parent", cgroup()});
  return all;
}

void Podman::give_files() const {
  if (!rootless_) return;
  [[maybe_unused]] const int given = std::system(("chown -R 65534:65534 '" + path() + "'").c_str());
}

std::vector<std::string> Podman::line(const std::vector<Mount>& mounts, const std::vector<std::string>& environment,
                                      const std::vector<std::string>& words) {
  const std::string rootfs = tree(mounts);
  give_files();
  std::vector<std::string> all = command();
  append(all, {"run", "--rm", "--interactive", "--cidfile=" + path() + "/id"});
  append(all, run_options());
  for (const Mount& mount : mounts)
    all.push_back("--volume=" + mount.from + ":" + mount.to + (mount.writable ? "" : ":ro"));
  for (const std::string& variable : environment) all.push_back("--env=" + variable);
  append(all, {"--rootfs", rootfs});
  append(all, words);
  return all;
}

// podman#6434: without root it makes cgroups only on hosts that use version 2 alone.
std::string Podman::where() const {
  std::string id;
  std::ifstream(path() + "/id") >> id;
  const bool shown = !rootless_ || ::access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;
  return shown ? "podman " + id.substr(0, 12) : std::string();
}

unsigned Podman::user() const { return rootless_ ? kNobody : 0; }

std::vector<std::string> Podman::podman(const std::vector<std::string>& words, const std::string& cdi_directory) const {
  std::vector<std::string> all = {"/usr/bin/unshare",
                                  "--mount",
                                  "/bin/sh",
                                  "-c",
                                  "mkdir -p /run/cdi && mount --bind '" + cdi_directory + "' /run/cdi && exec \"$@\"",
                                  "sh"};
  append(all, command());
  append(all, words);
  return all;
}

std::vector<std::string> Podman::command() const {
  std::vector<std::string> words = {"/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                                    "HOME=" + path() + "/home", "CONTAINERS_CONF=" + path() + "/containers.conf"};
  if (rootless_) words.push_back("XDG_RUNTIME_DIR=" + path() + "/xdg");
  if (rootless_) append(words, {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"});
  append(words, {"podman", "--root", path() + "/root", "--runroot", path() + "/run", "--tmpdir", path() + "/tmp",
                 "--storage-driver", "vfs"});
  return words;
}

}  // namespace headgate::e2e
