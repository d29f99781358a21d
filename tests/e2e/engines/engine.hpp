// Container engines under test: each puts a program into namespaces, a file system and cgroups of its own, from a tree
// of this machine's own files: nothing is downloaded.
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

  // Why it cannot run here; empty: it can.
  [[nodiscard]] virtual std::string lacks() const = 0;
  // Of the one container of this object: what starts `words` in it and stands in for them, with these mounts and
  // nothing in its environment but `environment` and PATH.
  [[nodiscard]] virtual std::vector<std::string> line(const std::vector<Mount>& mounts,
                                                      const std::vector<std::string>& environment,
                                                      const std::vector<std::string>& words) = 0;
  // What views say of where its programs run.
  [[nodiscard]] virtual std::string where() const = 0;
  // The user that has made the container, and may have to reach what is mounted.
  [[nodiscard]] virtual unsigned user() const { return 0; }

 protected:
  Engine();
  // An empty tree with the places of `mounts` in it.
  [[nodiscard]] std::string tree(const std::vector<Mount>& mounts) const;
  [[nodiscard]] const std::string& path() const { return directory_.path(); }
  // Our own below every hierarchy, gone with everybody in them.
  [[nodiscard]] const std::string& cgroup() const { return cgroup_; }
  void remove_cgroups() const;

 private:
  // However long TMPDIR is: podman takes 50 characters for where its containers run, and sockets lie in it.
  Directory directory_{"/tmp"};
  std::string cgroup_;
};

// "runc", "crun", "podman", "rootless podman", "docker", "containerd".
[[nodiscard]] std::unique_ptr<Engine> make_engine(const std::string& name);
// A dockerd that differs: programs that come first on its PATH, a runtime called headgate, the directory that it sees as
// /run/cdi, an image instead of an empty tree, more options of `docker run`. Each may be empty.
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

// As engines make them: 64 hexadecimal digits, unique on the machine.
[[nodiscard]] std::string new_container_id();

}  // namespace headgate::e2e
