// A daemon that writes CDI files, a share, and an image with a script that checks the share's limits.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "daemon_program.hpp"
#include "podman.hpp"

namespace headgate::e2e {

// Shell script for the container: prints what programs see of the share, one value per line.
extern const char* const kCheckShare;

struct Outcome {
  int status = -1;
  std::string out, err;
};
[[nodiscard]] Outcome outcome_of(const std::vector<std::string>& words);

// Returns true if kCheckShare's output is that of the share alice of 2 GiB.
[[nodiscard]] bool is_held(const Outcome& found);

// The daemon with its libraries in a directory that all users can read, as if installed: a CDI file names them.
class Installation {
 public:
  Installation();
  ~Installation();
  Installation(const Installation&) = delete;
  Installation& operator=(const Installation&) = delete;

 private:
  std::string other_;
  Directory directory_;
};

// A daemon that writes CDI files, the share alice of 2 GiB, a podman that sees them, and an image.
class ShareNode {
 public:
  // `profile`: as of Daemon.
  explicit ShareNode(bool rootless, const std::string& profile = {});

  [[nodiscard]] std::string image() const { return engine.folder() + "/rootfs"; }
  [[nodiscard]] std::filesystem::path file() const {
    return std::filesystem::path(directory.path()) / "headgate.io-share_alice.json";
  }
  [[nodiscard]] Outcome podman(const std::vector<std::string>& words) const {
    return outcome_of(engine.podman(words, directory.path()));
  }
  // Returns the arguments of `podman run`, with the image.
  [[nodiscard]] std::vector<std::string> run_image(const std::vector<std::string>& options,
                                                   const std::vector<std::string>& command) const;
  // The same for a container in the share, through its CDI device.
  [[nodiscard]] std::vector<std::string> run(const std::vector<std::string>& options,
                                             const std::vector<std::string>& command) const;
  // Runs kCheckShare in a new container.
  [[nodiscard]] Outcome check() const { return podman(run({"--rm"}, {"/bin/sh", "-c", kCheckShare})); }

  const Installation installation;
  Podman engine;
  const Directory directory;
  Daemon daemon;
};

}  // namespace headgate::e2e
