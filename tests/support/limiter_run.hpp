// Runs limiter_probe as a tenant, with exactly the environment that a test names.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace headgate::e2e {

using Environment = std::map<std::string, std::string>;

struct Outcome {
  int status = -1;  // exit status; 128 + signal
  std::string out;
  std::string err;
};

enum class Driver { quiet, quiet_old, simulated, none };

struct Tenant {
  Environment environment;  // in addition to LD_LIBRARY_PATH, LD_PRELOAD and HEADGATE_RUNTIME_DIR
  bool limited = true;      // with LD_PRELOAD
  bool linked = false;      // the probe linked with the driver
  Driver driver = Driver::quiet;
  std::string preload_before{}, preload_after{};  // other libraries in LD_PRELOAD, before and after the limiter
  std::string program{};                          // from the tests' folder, instead of the probe
};

// A private runtime directory for each test, removed at the end.
class Runtime {
 public:
  Runtime();
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

  [[nodiscard]] Outcome run(const Tenant& tenant, const std::vector<std::string>& arguments) const;

  // A tenant that runs until finish(); next_line() waits for its output.
  class Running {
   public:
    std::string next_line();
    void say(const std::string& line);  // to its standard input
    Outcome finish();                   // closes its standard input and waits
    void kill_and_wait();               // SIGKILL
    [[nodiscard]] int pid() const { return pid_; }

   private:
    friend class Runtime;
    int pid_ = -1, in_ = -1, out_ = -1;
    std::string err_path_;
  };
  [[nodiscard]] Running start(const Tenant& tenant, const std::vector<std::string>& arguments) const;

 private:
  std::string path_;
};

}  // namespace headgate::e2e
