#include "syscalls.hpp"

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "cost/markers.hpp"

extern char** environ;

namespace headgate::bench {

namespace {

// Applies spec.environment and spec.without to this process, the child that is about to exec.
void become(const load::ChildSpec& spec) {
  for (const std::string& pattern : spec.without) {
    std::vector<std::string> gone;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string name = std::string(*entry).substr(0, std::string(*entry).find('='));
      if (pattern.back() == '*' ? name.starts_with(pattern.substr(0, pattern.size() - 1)) : name == pattern) {
        gone.push_back(name);
      }
    }
    for (const std::string& name : gone) {
      ::unsetenv(name.c_str());
    }
  }
  for (const auto& [name, value] : spec.environment) {
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  std::vector<char*> words;
  for (const std::string& word : spec.argv) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  const int null = ::open("/dev/null", O_RDWR);
  ::dup2(null, 1);
  ::execv(words[0], words.data());
  ::_exit(127);
}

// Returns the number of the system call that `thread` is entering; -1 if it is leaving one. Uses linux/ptrace.h's
// layout of ptrace_syscall_info (op at 0, number at 24), because C libraries declare it under different names.
long entering(pid_t thread) {
  constexpr auto kGetSyscallInfo = static_cast<__ptrace_request>(0x420e);
  constexpr unsigned char kEntry = 1;
  std::array<unsigned char, 128> info{};
  if (::ptrace(kGetSyscallInfo, thread, reinterpret_cast<void*>(info.size()), info.data()) <= 0 || info[0] != kEntry) {
    return -1;
  }
  std::uint64_t number = 0;
  std::memcpy(&number, info.data() + 24, sizeof number);
  return static_cast<long>(number);
}

class Tracer {
 public:
  void enters(pid_t thread, long number) {
    if (number == kMarkBegin || number == kMarkWait || number == kMarkEnd) {
      marking_ = thread;
      phase_ = number;
    } else if (phase_ == kMarkEnd) {
      return;
    } else if (thread == marking_) {
      ++(phase_ == kMarkBegin ? calls.of_launches : calls.of_waits);
      ++calls.by_number[number];
    } else {
      ++calls.of_other_threads;
    }
  }

  SystemCalls calls;

 private:
  pid_t marking_ = -1;
  long phase_ = kMarkEnd;
};

}  // namespace

Result<SystemCalls> count_system_calls(const load::ChildSpec& spec) {
  const pid_t child = ::fork();
  if (child < 0) {
    return fail_errno("fork", errno);
  }
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) {
      ::_exit(126);
    }
    ::raise(SIGSTOP);
    become(spec);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) {
    return fail(ErrorCode::unsupported, "ptrace is not allowed here", "system calls per launch stay unmeasured");
  }
  constexpr long kOptions = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, reinterpret_cast<void*>(kOptions));
  ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
  Tracer tracer;
  for (;;) {
    const pid_t thread = ::waitpid(-1, &status, __WALL);
    if (thread < 0) {
      return fail_errno("waitpid", errno);
    }
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      if (thread != child) {
        continue;
      }
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return fail(ErrorCode::failed, spec.argv[0] + " failed under the tracer");
      }
      return tracer.calls;
    }
    long deliver = 0;
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
      if (const long number = entering(thread); number >= 0) {
        tracer.enters(thread, number);
      }
    } else if (WSTOPSIG(status) != SIGTRAP && WSTOPSIG(status) != SIGSTOP) {
      deliver = WSTOPSIG(status);
    }
    ::ptrace(PTRACE_SYSCALL, thread, nullptr, reinterpret_cast<void*>(deliver));
  }
}

}  // namespace headgate::bench
