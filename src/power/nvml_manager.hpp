// GPU managers that use the driver's NVML. The length of time slices is the exception: nvidia-smi alone can set it,
// through calls that no header declares.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "nvml/library.hpp"
#include "power/gpu_manager.hpp"

namespace headgate::power {

// Sets the length of a GPU's time slices with nvidia-smi.
class TimeSliceTool {
 public:
  struct Options {
    std::string program = "nvidia-smi";         // a path, or a name that is looked up in PATH
    std::vector<std::string> environment = {};  // NAME=VALUE, beside our own environment without a preload
    std::chrono::milliseconds timeout{4'000};
  };
  explicit TimeSliceTool(Options options) : options_(std::move(options)) {}

  // 0 default, 1 short, 2 medium, 3 long. `gpu`: its UUID. Blocks while the tool works. Errors: unsupported (no such
  // tool, one without compute policies, a GPU without them), denied (not root), failed (what it prints is not
  // understood).
  [[nodiscard]] Result<std::uint32_t> read(const std::string& gpu) const;
  // Does not read back. Errors: as of read().
  [[nodiscard]] Result<void> set(const std::string& gpu, std::uint32_t length) const;

 private:
  [[nodiscard]] Result<std::string> ask(const std::string& gpu, const std::string& what) const;

  Options options_;
};

// The length in what `nvidia-smi compute-policy --list` prints of one GPU; nothing where it is not there, or twice.
[[nodiscard]] std::optional<std::uint32_t> parse_time_slice(std::string_view output);

// Holds the driver's library open for the managers of all its GPUs, and releases it for a GPU reset. Thread-safe.
class NvmlSession {
 public:
  // `file`: see nvml::Library::open(). Errors: unreachable, also if the number of GPUs is unknown.
  [[nodiscard]] static Result<std::shared_ptr<NvmlSession>> open(const std::string& file);

  // One manager for each GPU that open() found, by NVML's index. They keep the session. Time slices are set with the
  // tool; without one they are unsupported.
  [[nodiscard]] static std::vector<std::unique_ptr<GpuManager>> managers(
      const std::shared_ptr<NvmlSession>& session, const std::optional<TimeSliceTool>& time_slices = {});

  // Closes the library once all calls into it have returned. Refuses calls until `pause` is over; the next call reopens
  // it.
  void release(std::chrono::nanoseconds pause);

  // Calls `work` with the library and the GPU's handle, keeping the library open meanwhile. Errors: unreachable.
  [[nodiscard]] Result<void> use(std::uint32_t index,
                                 const std::function<Result<void>(const nvml::Library&, abi::nvmlDevice_t)>& work);

 private:
  explicit NvmlSession(std::string file) : file_(std::move(file)) {}
  Result<void> reopen();  // requires exclusive `mutex_`

  const std::string file_;
  std::shared_mutex mutex_;  // shared for calls, exclusive for opening and closing
  std::optional<nvml::Library> library_;
  std::vector<std::string> uuids_;          // by index, as first seen
  std::vector<abi::nvmlDevice_t> devices_;  // their present handles; null: the driver does not know the GPU
  std::uint64_t closed_until_ns_ = 0;
};

}  // namespace headgate::power
