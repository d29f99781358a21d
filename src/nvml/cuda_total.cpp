#include "nvml/cuda_total.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/unique_fd.hpp"
#include "guest/abi/cuda.hpp"

namespace headgate::nvml {
namespace {

constexpr unsigned kPatienceS = 10;
constexpr std::chrono::minutes kRetryAfter{1};

// Formats it like NVML.
std::string text_of(const abi::CUuuid& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

// Runs in the child, which has no other threads.
std::uint64_t ask(const std::string& uuid, const std::string& library) {
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  void* const cuda = ::dlopen(library.c_str(), RTLD_NOW);
  if (cuda == nullptr) return 0;
  const auto init = reinterpret_cast<abi::CUresult (*)(unsigned)>(::dlsym(cuda, "cuInit"));
  const auto count_of = reinterpret_cast<abi::CUresult (*)(int*)>(::dlsym(cuda, "cuDeviceGetCount"));
  const auto uuid_of = reinterpret_cast<abi::CUresult (*)(abi::CUuuid*, int)>(::dlsym(cuda, "cuDeviceGetUuid"));
  const auto total_of = reinterpret_cast<abi::CUresult (*)(std::size_t*, int)>(::dlsym(cuda, "cuDeviceTotalMem_v2"));
  int count = 0;
  if (init == nullptr || count_of == nullptr || uuid_of == nullptr || total_of == nullptr ||
      init(0) != abi::CUDA_SUCCESS || count_of(&count) != abi::CUDA_SUCCESS)
    return 0;
  for (int device = 0; device < count; ++device) {
    abi::CUuuid one{};
    std::size_t total = 0;
    if (uuid_of(&one, device) == abi::CUDA_SUCCESS && text_of(one) == uuid &&
        total_of(&total, device) == abi::CUDA_SUCCESS)
      return total;
  }
  return 0;
}

std::uint64_t ask_in_child(const std::string& uuid, const std::string& library) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return 0;
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  // Other threads may hold malloc's or the loader's lock at the fork. glibc resets both in the child (its fork.c), so
  // ask() can load a library; if one were still held, the alarm would end the child.
  const pid_t child = ::fork();
  if (child < 0) return 0;
  if (child == 0) {
    ::alarm(kPatienceS);
    const std::uint64_t total = ask(uuid, library);
    const bool written = ::write(to.get(), &total, sizeof total) == sizeof total;
    ::_exit(written ? 0 : 1);
  }
  to = {};
  std::uint64_t total = 0;
  ssize_t read = 0;
  while ((read = ::read(from.get(), &total, sizeof total)) < 0 && errno == EINTR) {
  }
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return read == sizeof total ? total : 0;
}

struct Known {
  std::uint64_t total_bytes = 0;
  std::chrono::steady_clock::time_point asked;
};

}  // namespace

std::optional<std::uint64_t> cuda_total_bytes(const std::string& uuid, const std::string& nvml_path) {
  static std::mutex lock;
  static auto& known = *new std::map<std::string, Known>;
  const std::scoped_lock guard(lock);
  const auto now = std::chrono::steady_clock::now();
  const auto [at, fresh] = known.try_emplace(uuid);
  if (fresh || (at->second.total_bytes == 0 && now - at->second.asked >= kRetryAfter)) {
    std::error_code none;
    const std::filesystem::path beside = std::filesystem::path(nvml_path).parent_path() / "libcuda.so.1";
    const bool there = std::filesystem::exists(beside, none);
    at->second = {ask_in_child(uuid, there ? beside.string() : "libcuda.so.1"), now};
  }
  if (at->second.total_bytes == 0) return std::nullopt;
  return at->second.total_bytes;
}

}  // namespace headgate::nvml
