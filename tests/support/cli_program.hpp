// The built command in a shell line, with a private runtime directory.
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

  // Runs a line with /bin/sh (without -e). The environment has only PATH, HEADGATE_RUNTIME_DIR and H (the command).
  [[nodiscard]] Said shell(const std::string& line) const;
  [[nodiscard]] const std::string& runtime() const { return runtime_; }
  [[nodiscard]] const std::string& directory() const { return directory_; }

 private:
  std::string directory_, runtime_;
};

// Returns true if this machine allows mount namespaces (for full, read-only and missing file systems).
[[nodiscard]] bool may_mount();

}  // namespace headgate::e2e
