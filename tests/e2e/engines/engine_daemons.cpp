// Engines with daemons, dockerd and containerd, as unpacked by dev/real-parts. All their files are in one directory.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "daemon_program.hpp"
#include "engine.hpp"

namespace headgate::e2e {
namespace {

const std::string kParts = ENGINE_PARTS;
constexpr const char* kHostPath = "/usr/sbin:/usr/bin:/sbin:/bin";

// Their programs find each other by PATH. Some sockets are always in /run, so each gets a private /run.
class EngineDaemon : public Engine {
 public:
  [[nodiscard]] std::string lacks() const override {
    if (::access((kParts + "/complete").c_str(), F_OK) != 0) return "dev/real-parts has not been run";
    if (::access("/usr/sbin/runc", X_OK) != 0) return "there is no /usr/sbin/runc";
    if (::geteuid() != 0) return "only root may run it";
    if (::access("/sys/fs/cgroup", W_OK) != 0) return "there are no cgroups to be made here";
    return {};
  }

 protected:
  // Runs `line` in a shell until stop(), with its output in path()/log; throws unless `asked` then succeeds in time.
  // `before`: shell steps to run first, each followed by " && "; `first_on_path`: a directory followed by ":".
  void start(const std::string& line, const std::string& asked, const std::string& before = {},
             const std::string& first_on_path = {}) {
    auto variables = environment();
    variables["PATH"] = first_on_path + variables["PATH"];
    daemon_ = std::make_unique<Program>(
        std::vector<std::string>{
            "/usr/bin/unshare", "--mount", "setpriv", "--pdeathsig", "TERM", "/bin/sh", "-c",
            "mount -t tmpfs none /run && " + before + "exec " + line + " >'" + path() + "/log' 2>&1"},
        variables);
    if (!eventually([&] { return shell(asked) == 0; })) throw std::runtime_error("no answer: " + asked);
  }
  void stop() {
    if (daemon_ == nullptr) return;
    ::kill(daemon_->pid(), SIGTERM);
    daemon_->wait();
    daemon_.reset();
  }
  [[nodiscard]] int shell(const std::string& line) const {
    Program program({"/bin/sh", "-c", line + " >/dev/null 2>&1"}, environment());
    return program.wait();
  }
  [[nodiscard]] static std::map<std::string, std::string> environment() {
    return {{"PATH", kParts + "/usr/sbin:" + kParts + "/usr/bin:" + kHostPath},
            {"LD_LIBRARY_PATH", kParts + "/lib/x86_64-linux-gnu:" + kParts + "/usr/lib/x86_64-linux-gnu"},
            {"LD_PRELOAD", ""}};
  }
  // Returns the start of a client's command line, which sets that environment in addition to Program's.
  [[nodiscard]] static std::vector<std::string> client() {
    std::vector<std::string> words = {"/usr/bin/env"};
    for (const auto& [name, value] : environment()) words.push_back(name + "=" + value);
    return words;
  }

 private:
  std::unique_ptr<Program> daemon_;
};

class Docker : public EngineDaemon {
 public:
  ~Docker() override {
    if (started_) [[maybe_unused]]
      const int removed = shell(docker() + "rm --force --volumes tenant");
    stop();
    // Removes its cgroups below every hierarchy unless another container is in them.
    [[maybe_unused]] const int gone = std::system("rmdir /sys/fs/cgroup/*/docker /sys/fs/cgroup/docker 2>/dev/null");
  }
  explicit Docker(DockerSettings settings) : settings_(std::move(settings)) {}
  Docker(const Docker&) = delete;
  Docker& operator=(const Docker&) = delete;

  [[nodiscard]] std::vector<std::string> line(const std::vector<Mount>& mounts,
                                              const std::vector<std::string>& variables,
                                              const std::vector<std::string>& words) override {
    std::ofstream(path() + "/daemon.json")
        << R"({"data-root":")" << path() << R"(/data","exec-root":")" << path() << R"(/exec","pidfile":")" << path()
        << R"(/pid","hosts":["unix://)" << path()
        << R"(/sock"],"storage-driver":"vfs","iptables":false,"ip6tables":false,"bridge":"none")"
        << (settings_.runtime.empty() ? "" : R"(,"runtimes":{"headgate":{"path":")" + settings_.runtime + "\"}}")
        << "}";
    started_ = true;
    const std::string& cdi = settings_.cdi_directory;
    start("dockerd --config-file '" + path() + "/daemon.json'", docker() + "version",
          cdi.empty() ? "" : "mkdir /run/cdi && mount --bind '" + cdi + "' /run/cdi && ",
          settings_.first_on_path.empty() ? "" : settings_.first_on_path + ":");
    const std::string image = settings_.image.empty() ? tree(mounts) : settings_.image;
    if (shell("tar -C '" + image + "' -cf - . | " + docker() + "import - tenant:1") != 0)
      throw std::runtime_error("no image");
    std::vector<std::string> all = client();
    all.insert(all.end(), {"docker", "--host=unix://" + path() + "/sock", "run", "--rm", "--interactive",
                           "--name=tenant", "--network=none", "--log-driver=none", "--cidfile=" + path() + "/id"});
    for (const Mount& mount : mounts)
      all.push_back("--volume=" + mount.from + ":" + mount.to + (mount.writable ? "" : ":ro"));
    for (const std::string& variable : variables) all.push_back("--env=" + variable);
    all.insert(all.end(), settings_.options.begin(), settings_.options.end());
    all.emplace_back("tenant:1");
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }

  [[nodiscard]] std::string where() const override {
    std::string id;
    std::ifstream(path() + "/id") >> id;
    return "docker " + id.substr(0, 12);
  }

 private:
  [[nodiscard]] std::string docker() const { return "docker --host='unix://" + path() + "/sock' "; }

  const DockerSettings settings_;
  bool started_ = false;
};

class Containerd : public EngineDaemon {
 public:
  explicit Containerd(ContainerdSettings settings) : settings_(std::move(settings)) {}
  ~Containerd() override {
    if (started_) {
      [[maybe_unused]] const int removed =
          shell(ctr() + "task delete --force " + id_ + "; " + ctr() + "container delete " + id_);
    }
    stop();
    [[maybe_unused]] const int gone = std::system("rmdir /sys/fs/cgroup/*/tenants /sys/fs/cgroup/tenants 2>/dev/null");
  }
  Containerd(const Containerd&) = delete;
  Containerd& operator=(const Containerd&) = delete;

  [[nodiscard]] std::vector<std::string> line(const std::vector<Mount>& mounts,
                                              const std::vector<std::string>& variables,
                                              const std::vector<std::string>& words) override {
    std::ofstream(path() + "/config.toml") << "version = 2\nroot = \"" << path() << "/data\"\nstate = \"" << path()
                                           << "/state\"\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n"
                                           << "[grpc]\naddress = \"" << path() << "/sock\"\n";
    started_ = true;
    start("containerd --config '" + path() + "/config.toml'", ctr() + "version");
    std::vector<std::string> all = client();
    all.insert(all.end(), {"ctr", "--address", path() + "/sock", "--namespace", "tenants", "run", "--rm", "--fifo-dir",
                           path() + "/fifo", "--rootfs"});
    for (const Mount& mount : mounts) {
      all.insert(all.end(), {"--mount", "type=bind,src=" + mount.from + ",dst=" + mount.to +
                                            ",options=rbind:" + (mount.writable ? "rw" : "ro")});
    }
    for (const std::string& variable : variables) all.insert(all.end(), {"--env", variable});
    if (!settings_.runtime.empty()) all.insert(all.end(), {"--runc-binary", settings_.runtime});
    all.insert(all.end(), settings_.options.begin(), settings_.options.end());
    all.insert(all.end(), {settings_.image.empty() ? tree(mounts) : settings_.image, id_});
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }

  // Its cgroup is just /NAMESPACE/NAME.
  [[nodiscard]] std::string where() const override { return "container " + id_.substr(0, 12); }

 private:
  [[nodiscard]] std::string ctr() const { return "ctr --address '" + path() + "/sock' --namespace tenants "; }

  const ContainerdSettings settings_;
  std::string id_ = new_container_id();
  bool started_ = false;
};

}  // namespace

std::unique_ptr<Engine> make_docker(const DockerSettings& settings) { return std::make_unique<Docker>(settings); }
std::unique_ptr<Engine> make_containerd(const ContainerdSettings& settings) {
  return std::make_unique<Containerd>(settings);
}

}  // namespace headgate::e2e
