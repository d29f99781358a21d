#include "nvml/xid.hpp"

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
  unsigned count = 0;
  if (!call(library->nvmlDeviceGetCount_v2, &count) || !call(library->nvmlEventSetCreate, &set_)) return;
  for (unsigned index = 0; index < count; ++index) {
    abi::nvmlDevice_t device = nullptr;
    if (call(library->nvmlDeviceGetHandleByIndex_v2, index, &device) &&
        call(library->nvmlDeviceRegisterEvents, device, kXidEvent, set_))
      uuids_[device] = text_of(library->nvmlDeviceGetUUID, device);
  }
}

XidWatch::~XidWatch() {
  if (set_ != nullptr) (void)call(library_->nvmlEventSetFree, set_);
}

std::vector<Xid> XidWatch::take() {
  std::vector<Xid> found;
  EventData event{};
  while (set_ != nullptr && found.size() < kMaxAtOnce && call(library_->nvmlEventSetWait_v2, set_, &event, 0u)) {
    if (event.type != kXidEvent) continue;
    const auto device = uuids_.find(event.device);
    found.push_back({device == uuids_.end() ? "" : device->second, static_cast<std::uint32_t>(event.data)});
  }
  return found;
}

}  // namespace headgate::nvml
