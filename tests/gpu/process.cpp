#include <dlfcn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <thread>

#include "fact.hpp"
#include "guest/abi/nvml.hpp"

namespace headgate::gpu_facts {

namespace {

// NVML of the first device. It takes no context, so this process stays off the GPU.
class Witness {
 public:
  static Result<Witness> open() {
    void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library == nullptr) {
      return fail(ErrorCode::unreachable, "libnvidia-ml.so.1 did not load");
    }
    const auto init = reinterpret_cast<abi::nvmlInit_v2_t*>(::dlsym(library, "nvmlInit_v2"));
    const auto handle =
        reinterpret_cast<abi::nvmlDeviceGetHandleByIndex_v2_t*>(::dlsym(library, "nvmlDeviceGetHandleByIndex_v2"));
    Witness witness;
    witness.info_ = reinterpret_cast<abi::nvmlDeviceGetMemoryInfo_t*>(::dlsym(library, "nvmlDeviceGetMemoryInfo"));
    if (init == nullptr || handle == nullptr || witness.info_ == nullptr) {
      return fail(ErrorCode::unreachable, "libnvidia-ml.so.1 lacks a function");
    }
    if (const auto result = init(); result != abi::NVML_SUCCESS) {
      return fail(ErrorCode::unreachable, "nvmlInit: " + std::to_string(static_cast<unsigned>(result)));
    }
    if (const auto result = handle(0, &witness.device_); result != abi::NVML_SUCCESS) {
      return fail(ErrorCode::unreachable,
                  "nvmlDeviceGetHandleByIndex: " + std::to_string(static_cast<unsigned>(result)));
    }
    return witness;
  }

  [[nodiscard]] std::int64_t used_bytes() const {
    abi::nvmlMemory_t memory{};
    return info_(device_, &memory) == abi::NVML_SUCCESS ? static_cast<std::int64_t>(memory.used) : -1;
  }

  // Returns the ms until `condition` holds for the used bytes; -1 after `limit_ms`.
  [[nodiscard]] double until(const std::function<bool(std::int64_t)>& condition, double limit_ms) const {
    const std::int64_t from = now_ns();
    while (!condition(used_bytes())) {
      if (static_cast<double>(now_ns() - from) * 1e-6 > limit_ms) {
        return -1;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return static_cast<double>(now_ns() - from) * 1e-6;
  }

 private:
  abi::nvmlDevice_t device_{};
  abi::nvmlDeviceGetMemoryInfo_t* info_ = nullptr;
};

// A child that opens the card, does `work`, reports through the pipe, and stays. Killed by the destructor.
class Resident {
 public:
  Resident(const std::function<void(const Card&)>& work, bool with_grandchild) {
    int ready[2], keep[2];
    if (::pipe(ready) != 0 || ::pipe(keep) != 0) {
      return;
    }
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const auto card = open_card();
      if (!card) {
        ::_exit(1);
      }
      work(*card);
      pid_t grandchild = 0;
      if (with_grandchild) {
        grandchild = ::fork();
        if (grandchild == 0) {
          // Keeps the parent's descriptors open, like a data loader; ends at the pipe's end of file.
          ::close(keep[1]);
          char end;
          (void)!::read(keep[0], &end, 1);
          ::_exit(0);
        }
      }
      (void)!::write(ready[1], "r", 1);
      for (;;) {
        ::pause();
      }
    }
    ::close(ready[1]);
    ::close(keep[0]);
    keep_ = keep[1];
    char said = 0;
    ready_ = ::read(ready[0], &said, 1) == 1;
    ::close(ready[0]);
  }
  Resident(const Resident&) = delete;
  Resident& operator=(const Resident&) = delete;
  ~Resident() {
    kill();
    end_grandchild();
  }

  [[nodiscard]] bool ready() const { return ready_; }
  void kill() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
      pid_ = -1;
    }
  }
  void end_grandchild() {
    if (keep_ >= 0) {
      ::close(keep_);
      keep_ = -1;
    }
  }

 private:
  pid_t pid_ = -1;
  int keep_ = -1;
  bool ready_ = false;
};

constexpr std::size_t kHeldBytes = std::size_t{1} << 30;

void hold_a_gigabyte(const Card& card) {
  CUdeviceptr held = 0;
  (void)card.driver.cuMemAlloc(&held, kHeldBytes);
}

Result<Json> release_after_kill(const Witness& witness, bool with_grandchild) {
  const std::int64_t before = witness.used_bytes();
  Resident resident(hold_a_gigabyte, with_grandchild);
  if (!resident.ready()) {
    return fail(ErrorCode::failed, "the child process did not reach the GPU");
  }
  const std::int64_t held = witness.used_bytes() - before;
  const auto gone = [before](std::int64_t used) { return used <= before + (std::int64_t{1} << 26); };
  resident.kill();
  const double after_kill = witness.until(gone, with_grandchild ? 1500 : 10'000);
  resident.end_grandchild();
  const double after_end = witness.until(gone, 10'000);
  return Json{{"forked_child_lives_on", with_grandchild},
              {"held_bytes", held},
              {"gone_ms_after_kill", after_kill},
              {"gone_ms_after_the_forked_childs_end", after_end}};
}

}  // namespace

Result<Json> context_bytes() {
  const Witness witness = TRY(Witness::open());
  const std::int64_t before = witness.used_bytes();
  const Resident first([](const Card&) {}, false);
  const std::int64_t one = witness.used_bytes();
  const Resident second([](const Card&) {}, false);
  const std::int64_t two = witness.used_bytes();
  if (!first.ready() || !second.ready()) {
    return fail(ErrorCode::failed, "the child processes did not reach the GPU");
  }
  return Json{
      {"first_process_bytes", one - before}, {"second_process_bytes", two - one}, {"used_before_bytes", before}};
}

Result<Json> memory_after_kill() {
  const Witness witness = TRY(Witness::open());
  Json json = Json::array();
  json.push_back(TRY(release_after_kill(witness, false)));
  json.push_back(TRY(release_after_kill(witness, true)));
  return json;
}

Result<Json> time_slice_between_processes() {
  const auto keep_busy = [](const Card& card) {
    std::thread([card] {
      card.driver.cuCtxSetCurrent(card.context);
      while (launch_busy(card.driver, card.kernel, 100, card.stream) == CUDA_SUCCESS) {
      }
    }).detach();
  };
  const Resident neighbour(keep_busy, false);
  if (!neighbour.ready()) {
    return fail(ErrorCode::failed, "the neighbour process did not reach the GPU");
  }
  // Measured in a child, because later facts fork and this process must not have used the GPU.
  int result[2];
  if (::pipe(result) != 0) {
    return fail_errno("pipe", errno);
  }
  const pid_t child = ::fork();
  if (child == 0) {
    const auto card = open_card();
    const auto measured = card ? time_slice(*card) : Result<Json>(std::unexpected(card.error()));
    const std::string text = measured ? measured->dump() : Json{{"error", measured.error().message}}.dump();
    (void)!::write(result[1], text.data(), text.size());
    ::_exit(0);
  }
  ::close(result[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(result[0], buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(result[0]);
  ::waitpid(child, nullptr, 0);
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || json.contains("error")) {
    return fail(ErrorCode::failed,
                "measured process: " + (json.is_discarded() ? "no answer" : json["error"].get<std::string>()));
  }
  return json;
}

}  // namespace headgate::gpu_facts
