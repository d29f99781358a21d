// Container engines under test. Each runs a program in separate namespaces, cgroups and a file tree made of this
// machine's files: nothing is downloaded.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim_program.hpp"

namespace headgate::e2e {

struct Mount {
  std::string from, to;
  bool writable = false;
};

class Engine {
 public:
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Returns why it cannot run here; empty if it can.
  [[nodiscard]] virtual std::string lacks() const = 0;
  // Returns the command line that runs `words` in this object's container and forwards output and status. The container
  // gets these mounts, and only `environment` and PATH in its environment.
  [[nodiscard]] virtual std::vector<std::string> line(const std::vector<Mount>& mounts,
                                                      const std::vector<std::string>& environment,
                                                      const std::vector<std::string>& words) = 0;
  // Returns the location that views show for its programs.
  [[nodiscard]] virtual std::string where() const = 0;
  // Returns the user that created the container, and needs access to what is mounted.
  [[nodiscard]] virtual unsigned user() const { return 0; }

 protected:
  Engine();
  // Makes an empty tree with mount points for `mounts`.
  [[nodiscard]] std::string tree(const std::vector<Mount>& mounts) const;
  [[nodiscard]] const std::string& path() const { return directory_.path(); }
  // The test's cgroup below every hierarchy; removed with all processes in it.
  [[nodiscard]] const std::string& cgroup() const { return cgroup_; }
  void remove_cgroups() const;

 private:
  // Not in TMPDIR, which may be long: podman adds 50 characters to the path of its sockets.
  Directory directory_{"/tmp"};
  std::string cgroup_;
};

// "runc", "crun", "podman", "rootless podman", "docker", "containerd".
[[nodiscard]] std::unique_ptr<Engine> make_engine(const std::string& name);
// Settings of a dockerd: a directory to put first on its PATH, a runtime called headgate, the directory to mount as
// /run/cdi, an image instead of an empty tree, further options of `docker run`. Each may be empty.
struct DockerSettings {
  std::string first_on_path, runtime, cdi_directory, image;
  std::vector<std::string> options;
};
[[nodiscard]] std::unique_ptr<Engine> make_docker(const DockerSettings& settings = {});
// A containerd whose `ctr run` differs in the same way.
struct ContainerdSettings {
  std::string runtime, image;
  std::vector<std::string> options;
};
[[nodiscard]] std::unique_ptr<Engine> make_containerd(const ContainerdSettings& settings = {});

// Returns an id like an engine's: 64 hexadecimal digits, unique on the machine.
[[nodiscard]] std::string new_container_id();

}  // namespace headgate::e2e
