// NVLink: every link of a card that has any is up and free of errors. The other end is not modelled.
#include "sim/nvml/library.hpp"

namespace headgate::sim::nvml {

unsigned nvlinks(const Profile& profile) {
  // An A100 has 108 SMs; smaller cards of that generation have at most a bridge.
  constexpr std::uint32_t kSmsOfAModule = 108;
  if (profile.sm_count < kSmsOfAModule) return 0;
  if (profile.capability_major == 8 && profile.capability_minor == 0) return 12;
  return profile.capability_major >= 9 ? 18 : 0;
}

namespace {

template <typename Body>
nvmlReturn_t on_link(DeviceCall call, unsigned link, bool known, Body&& body) {
  return on_device(call, [&](const DeviceView& view) {
    if (!known || link >= kMaxNvlinks) return NVML_ERROR_INVALID_ARGUMENT;
    if (link >= nvlinks(view.profile())) return NVML_ERROR_NOT_SUPPORTED;
    body();
    return NVML_SUCCESS;
  });
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, nvmlEnableState_t* isActive) {
  return on_link(device, link, isActive != nullptr, [&] { *isActive = NVML_FEATURE_ENABLED; });
}

nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned link, nvmlNvLinkErrorCounter_t counter,
                                             unsigned long long* counterValue) {
  constexpr unsigned kKinds = 5;
  return on_link(device, link, counterValue != nullptr && counter < kKinds, [&] { *counterValue = 0; });
}

}  // extern "C"
}  // namespace headgate::sim::nvml
