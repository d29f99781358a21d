#include "nvml/xid.hpp"

#include <array>

namespace headgate::nvml {
namespace {

// NVML 11.8's nvml.h: nvmlEventTypeXidCriticalError and nvmlEventData_t.
constexpr unsigned long long kXidEvent = 8;
struct EventData {
  abi::nvmlDevice_t device;
  unsigned long long type;
  unsigned long long data;  // the XID
  unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(EventData) == 32);

constexpr std::size_t kMaxAtOnce = 256;  // so that a GPU with a storm of errors does not block the reader

}  // namespace

XidWatch::XidWatch(const Library& library) : library_(library) {
  if (library->nvmlEventSetCreate == nullptr || library->nvmlEventSetFree == nullptr ||
      library->nvmlDeviceRegisterEvents == nullptr || library->nvmlEventSetWait_v2 == nullptr)
    return;
  unsigned count = 0;
  if (library->nvmlDeviceGetCount_v2(&count) != abi::NVML_SUCCESS ||
      library->nvmlEventSetCreate(&set_) != abi::NVML_SUCCESS)
    return;
  for (unsigned index = 0; index < count; ++index) {
    abi::nvmlDevice_t device = nullptr;
    std::array<char, 96> uuid{};
    if (library->nvmlDeviceGetHandleByIndex_v2(index, &device) != abi::NVML_SUCCESS ||
        library->nvmlDeviceRegisterEvents(device, kXidEvent, set_) != abi::NVML_SUCCESS)
      continue;
    if (library->nvmlDeviceGetUUID(device, uuid.data(), uuid.size()) == abi::NVML_SUCCESS) uuids_[device] = uuid.data();
  }
}

XidWatch::~XidWatch() {
  if (set_ != nullptr) library_->nvmlEventSetFree(set_);
}

std::vector<Xid> XidWatch::take() {
  std::vector<Xid> found;
  EventData event{};
  while (set_ != nullptr && found.size() < kMaxAtOnce &&
         library_->nvmlEventSetWait_v2(set_, &event, 0) == abi::NVML_SUCCESS) {
    if (event.type != kXidEvent) continue;
    const auto device = uuids_.find(event.device);
    found.push_back({device == uuids_.end() ? "" : device->second, static_cast<std::uint32_t>(event.data)});
  }
  return found;
}

}  // namespace headgate::nvml
