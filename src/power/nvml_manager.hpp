// GPU managers that use the driver's NVML.
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
