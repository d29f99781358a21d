// Shares and cards for this room's tests.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "tenancy/admission.hpp"

namespace headgate::tenancy {

inline const std::string kGpu0 = "GPU-00000000-2222-3333-4444-555555555555";
inline const std::string kGpu1 = "GPU-11111111-2222-3333-4444-555555555555";
inline constexpr std::uint64_t kGiB = 1ull << 30;

inline Share share_of(std::string name, std::uint32_t owner, std::optional<std::uint64_t> memory,
                      std::uint32_t guarantee = 0, const std::string& gpu = kGpu0) {
  Share share;
  share.name = std::move(name);
  share.owner_uid = owner;
  DeviceShare device;
  device.uuid = gpu;
  device.memory_limit_bytes = memory;
  device.guarantee_ppm = guarantee;
  share.devices.push_back(std::move(device));
  return share;
}

// A scratch directory, removed with the object.
class Scratch {
 public:
  Scratch() {
    char path[] = "/tmp/headgate-tenancy-XXXXXX";
    path_ = ::mkdtemp(path) == nullptr ? "" : path;
  }
  Scratch(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace headgate::tenancy
