// podman under test, as root or as another user, with a private set of files. It needs no more privileges than our
// container has.
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

  // Returns a podman command line. podman finds the CDI files of `cdi_directory` in the system's place.
  [[nodiscard]] std::vector<std::string> podman(const std::vector<std::string>& words,
                                                const std::string& cdi_directory) const;
  // Returns the options that every `run` needs.
  [[nodiscard]] std::vector<std::string> run_options() const;
  // Gives all of its files to the user that runs it.
  void give_files() const;
  [[nodiscard]] const std::string& folder() const { return path(); }

 private:
  [[nodiscard]] std::vector<std::string> command() const;

  bool rootless_;
};

}  // namespace headgate::e2e
