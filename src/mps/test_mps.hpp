// A folder for a control daemon, the tool to run, and processes that hold it.
#pragma once

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "mps/manager.hpp"
#include "mps/multi_user.hpp"

namespace headgate::mps {

inline constexpr const char* kTestUuid = "GPU-12345678-1234-1234-1234-123456789abc";

inline bool comes_true(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

// A process that does nothing; it ends with the object.
class Sleeper {
 public:
  // `uid`: the user to run as; only root can choose another.
  explicit Sleeper(uid_t uid = ::geteuid()) : pid_(::fork()) {
    if (pid_ != 0) return;
    if (uid != ::geteuid() && ::setresuid(uid, uid, uid) != 0) ::_exit(1);
    for (;;) ::pause();
  }
  ~Sleeper() { end(); }
  Sleeper(const Sleeper&) = delete;
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  [[nodiscard]] ProcessMark mark() const { return mark_of(static_cast<std::uint32_t>(pid_), "/proc").value(); }

 private:
  pid_t pid_;
};

class MpsFolder {
 public:
  MpsFolder() {
    std::string pattern = "/tmp/hg-mps-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  // Ends all daemons with the test.
  ~MpsFolder() {
    for (const std::uint32_t uid : {0u, 1u, kAllUsers})
      if (const auto places = places_of(base(), {kTestUuid, uid}); places && std::filesystem::exists(places->pipe))
        (void)kill_started(*places, ItsServers::kill, "/proc");
    end_multi_user_probe(base(), "/proc");
    std::filesystem::remove_all(path_);
  }
  MpsFolder(const MpsFolder&) = delete;

  [[nodiscard]] std::string base() const { return path_ + "/mps"; }
  [[nodiscard]] std::string file() const { return path_ + "/mps.json"; }
  [[nodiscard]] Places places(std::uint32_t uid = 0) const { return places_of(base(), {kTestUuid, uid}).value(); }
  [[nodiscard]] std::uint32_t running_daemon(std::uint32_t uid = 0) const {
    const auto found = daemon_at(places(uid).pipe, "/proc");
    return found ? found->mark.pid : 0;
  }

  Manager::Options options(const std::string& tool) {
    Manager::Options options;
    options.tool = tool;
    options.base = base();
    options.file = file();
    options.foreign_pipes = {};
    options.tell = [this](const News& news) {
      const std::lock_guard lock(mutex_);
      told_.push_back(news);
    };
    return options;
  }
  // Returns the texts reported under this kind.
  [[nodiscard]] std::vector<std::string> told(const std::string& kind) const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> texts;
    for (const News& news : told_)
      if (news.kind == kind) texts.push_back(news.text);
    return texts;
  }
  void demand(const std::string& word) const { std::ofstream(places().log + "/demand") << word; }

 private:
  std::string path_;
  mutable std::mutex mutex_;
  std::vector<News> told_;
};

// Holds a variable of this process while the object lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;

 private:
  const char* name_;
};

inline Tenant tenant_of(const Sleeper& process, Settings settings = {}, std::uint32_t uid = 0) {
  return {.group = {kTestUuid, uid},
          .settings = settings,
          .low_priority = false,
          .holder = {.process = process.mark(), .share = "m", .is_program = true}};
}

}  // namespace headgate::mps
