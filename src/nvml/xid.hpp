// Critical GPU errors (XIDs) from NVML's event set.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nvml/library.hpp"

namespace headgate::nvml {

struct Xid {
  std::string uuid;  // the GPU's; empty if the driver names no known GPU
  std::uint32_t xid = 0;
  friend bool operator==(const Xid&, const Xid&) = default;
};

// Watches all GPUs from its construction; stays silent if driver or GPU lacks these events. Must be destroyed before
// its library. Not thread-safe.
class XidWatch {
 public:
  explicit XidWatch(const Library& library);
  ~XidWatch();
  XidWatch(const XidWatch&) = delete;
  XidWatch& operator=(const XidWatch&) = delete;

  // Returns the XIDs since the last call; does not block.
  [[nodiscard]] std::vector<Xid> take();

 private:
  const Library& library_;
  void* set_ = nullptr;
  std::map<abi::nvmlDevice_t, std::string> uuids_;
};

}  // namespace headgate::nvml
