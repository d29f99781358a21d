// A daemon that keeps CDI files, a share, and an image whose programs say whether they are held to it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "daemon_program.hpp"
#include "podman.hpp"

namespace headgate::e2e {

// Runs in the container: what its programs have of the share, a line each.
extern const char* const kCheckShare;

struct Outcome {
  int status = -1;
  std::string out, err;
};
[[nodiscard]] Outcome outcome_of(const std::vector<std::string>& words);

// Of kCheckShare in the share alice of 2 GiB.
[[nodiscard]] bool is_held(const Outcome& found);

// The daemon with its libraries where every user reaches them, as those of an installation: a CDI file names them.
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

// A daemon that keeps CDI files, the share alice of 2 GiB, a podman that sees them, and an image.
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
  // The words of `podman run`, with the image.
  [[nodiscard]] std::vector<std::string> run_image(const std::vector<std::string>& options,
                                                   const std::vector<std::string>& command) const;
  // The same for a container in the share, by its CDI device.
  [[nodiscard]] std::vector<std::string> run(const std::vector<std::string>& options,
                                             const std::vector<std::string>& command) const;
  // What kCheckShare finds in a container of its own.
  [[nodiscard]] Outcome check() const { return podman(run({"--rm"}, {"/bin/sh", "-c", kCheckShare})); }

  const Installation installation;
  Podman engine;
  const Directory directory;
  Daemon daemon;
};

}  // namespace headgate::e2e
