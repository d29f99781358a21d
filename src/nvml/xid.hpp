// Critical errors of GPUs (XIDs), as NVML's event set hands them out.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nvml/library.hpp"

namespace headgate::nvml {

struct Xid {
  std::string uuid;  // of the GPU; empty where the driver names none that we know
  std::uint32_t xid = 0;
  friend bool operator==(const Xid&, const Xid&) = default;
};

// Watches all GPUs from its making on; where the driver or a card has no such events it never hears of one. Ends before
// its library does. Not thread-safe.
class XidWatch {
 public:
  explicit XidWatch(const Library& library);
  ~XidWatch();
  XidWatch(const XidWatch&) = delete;
  XidWatch& operator=(const XidWatch&) = delete;

  // Those since the last call; does not wait.
  [[nodiscard]] std::vector<Xid> take();

 private:
  const Library& library_;
  void* set_ = nullptr;
  std::map<abi::nvmlDevice_t, std::string> uuids_;
};

}  // namespace headgate::nvml
