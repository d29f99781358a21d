// A keeper over the stand-in for NVIDIA's control daemon, and processes that are clients.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <utility>

#include "mps/keeper.hpp"
#include "mps/test_mps.hpp"
#include "sim/mps/wire.hpp"

namespace headgate::mps {

using std::chrono::milliseconds;

// A process that is a client of the control daemon at a pipe directory, until it ends.
class FakeClient {
 public:
  explicit FakeClient(const std::string& pipe) {
    int ends[2];
    if (::pipe(ends) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      const int connection = sim::mps::connect_to(pipe);
      const sim::mps::Hello hello;
      ::send(connection, &hello, sizeof hello, MSG_NOSIGNAL);
      sim::mps::Welcome welcome;
      const bool in = ::recv(connection, &welcome, sizeof welcome, 0) == static_cast<ssize_t>(sizeof welcome);
      const auto byte = static_cast<char>(in ? static_cast<int>(welcome.answer) : 0);
      if (::write(ends[1], &byte, 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    ::close(ends[1]);
    char byte = 0;
    if (::read(ends[0], &byte, 1) == 1) answer_ = static_cast<sim::mps::Answer>(byte);
    ::close(ends[0]);
  }
  ~FakeClient() { end(); }
  FakeClient(const FakeClient&) = delete;
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] sim::mps::Answer answer() const { return answer_; }

 private:
  pid_t pid_ = 0;
  sim::mps::Answer answer_{};
};

class MpsKeeper : public ::testing::Test {
 protected:
  ~MpsKeeper() override { ::unsetenv("HEADGATE_SIM_MPS"); }

  // `manners`: options of the stand-in (HEADGATE_SIM_MPS).
  void start(const char* manners = "", Limits limits = {}, milliseconds look = milliseconds(20)) {
    ::setenv("HEADGATE_SIM_MPS", manners, 1);
    auto options = folder_.options(tool_);
    options.limits = limits;
    if (step_) options.step = step_;
    keeper_.emplace(std::move(options),
                    KeeperTimes{.look = look, .unsettled = milliseconds(20), .after_news = milliseconds(1)});
    ASSERT_TRUE(keeper_->start());
  }
  Result<Variables> acquire(const Sleeper& process) {
    std::promise<Result<Variables>> promise;
    keeper_->acquire(tenant_of(process), [&](Result<Variables> variables) { promise.set_value(std::move(variables)); });
    return promise.get_future().get();
  }
  [[nodiscard]] std::string pipe() const { return folder_.places().pipe; }
  [[nodiscard]] bool is_told(const std::string& kind) const { return !folder_.told(kind).empty(); }

  // The tool becomes this script; `$@` are its words.
  void write_tool(const std::string& line) {
    tool_ = std::filesystem::path(folder_.base()).parent_path() / "tool";
    std::ofstream(tool_ + ".new") << "#!/bin/sh\n" << line << "\n";
    std::filesystem::permissions(tool_ + ".new", std::filesystem::perms::owner_all);
    std::filesystem::rename(tool_ + ".new", tool_);
  }

  MpsFolder folder_;
  std::string tool_ = HEADGATE_SIM_MPS_TOOL;
  std::function<void()> step_;
  std::optional<Keeper> keeper_;
};

inline constexpr const char* kSoundTool = "exec " HEADGATE_SIM_MPS_TOOL " \"$@\"";

}  // namespace headgate::mps
