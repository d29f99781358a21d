// The GPU managers over the driver's NVML.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "nvml/library.hpp"
#include "power/gpu_manager.hpp"
#include "power/time_slice_tool.hpp"

namespace headgate::power {

// The driver's library, held open for the managers of all its GPUs, and let go of when a GPU is to be reset.
// Thread-safe.
class NvmlSession {
 public:
  // `file`: as nvml::Library::open() takes it. Errors: unreachable, also where it does not say how many GPUs there are.
  [[nodiscard]] static Result<std::shared_ptr<NvmlSession>> open(const std::string& file);

  // One manager for each GPU that open() found, by NVML's index. They keep the session. Time slices are set with the
  // tool; without one they are unsupported.
  [[nodiscard]] static std::vector<std::unique_ptr<GpuManager>> managers(
      const std::shared_ptr<NvmlSession>& session, const std::optional<TimeSliceTool>& time_slices = {});

  // Closes the library when the calls into it have returned. Calls are refused until `pause` is over; then the next one
  // opens it.
  void release(std::chrono::nanoseconds pause);

  // Calls `work` with the library and the GPU's handle; the library stays open meanwhile. Errors: unreachable.
  [[nodiscard]] Result<void> use(std::uint32_t index,
                                 const std::function<Result<void>(const nvml::Library&, abi::nvmlDevice_t)>& work);

 private:
  explicit NvmlSession(std::string file) : file_(std::move(file)) {}
  Result<void> reopen();  // with `mutex_` held alone

  const std::string file_;
  std::shared_mutex mutex_;  // shared: a call; alone: opening and closing
  std::optional<nvml::Library> library_;
  std::vector<std::string> uuids_;          // by index, as they were first
  std::vector<abi::nvmlDevice_t> devices_;  // their handles now; null: the driver does not know the GPU
  std::uint64_t closed_until_ns_ = 0;
};

}  // namespace headgate::power
