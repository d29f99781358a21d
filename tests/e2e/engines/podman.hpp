// podman under test, as root or as another user: its files are its own, and it needs no more rights than a container of
// ours has.
#pragma once

#include "engine.hpp"

namespace headgate::e2e {

class Podman : public Engine {
 public:
  explicit Podman(bool rootless);
  ~Podman() override;
  Podman(const Podman&) = delete;
  Podman& operator=(const Podman&) = delete;

  [[nodiscard]] std::string lacks() const override;
  [[nodiscard]] std::vector<std::string> line(const std::vector<Mount>& mounts,
                                              const std::vector<std::string>& environment,
                                              const std::vector<std::string>& words) override;
  [[nodiscard]] std::string where() const override;
  [[nodiscard]] unsigned user() const override;

  // podman with these words. It finds the CDI files of `cdi_directory` where it looks for those of the machine.
  [[nodiscard]] std::vector<std::string> podman(const std::vector<std::string>& words,
                                                const std::string& cdi_directory) const;
  // What `run` needs whatever is run.
  [[nodiscard]] std::vector<std::string> run_options() const;
  // All of its files are the user's who runs it.
  void give_files() const;
  [[nodiscard]] const std::string& folder() const { return path(); }

 private:
  [[nodiscard]] std::vector<std::string> command() const;

  bool rootless_;
};

}  // namespace headgate::e2e
