// The built command in a shell line, with a runtime directory of its own.
#pragma once

#include <string>

namespace headgate::e2e {

struct Said {
  int status = -1;  // of the shell
  std::string out, err;
};

class Cli {
 public:
  Cli();
  ~Cli();
  Cli(const Cli&) = delete;

  // Runs a line under /bin/sh -e-less, in an environment that holds PATH, HEADGATE_RUNTIME_DIR and H (the command)
  // only.
  [[nodiscard]] Said shell(const std::string& line) const;
  [[nodiscard]] const std::string& runtime() const { return runtime_; }
  [[nodiscard]] const std::string& directory() const { return directory_; }

 private:
  std::string directory_, runtime_;
};

// Whether this machine lets us make mount namespaces (for full, read-only and missing file systems).
[[nodiscard]] bool may_mount();

}  // namespace headgate::e2e
