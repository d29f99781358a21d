// Hides the functions that came after the node's driver release when the library is loaded.
//
// The table has the names of Debian's 535 library and one newer, from NVIDIA's reference of driver 550 (CUDA 12.4).
#include "sim/exports.hpp"

namespace headgate::sim::nvml {
namespace {

constexpr int kCudaOfDriver550 = 12040;

__attribute__((constructor)) void export_only_this_release() {
  if (cuda_version_at_load() >= kCudaOfDriver550) return;
  hide_from_dlsym(reinterpret_cast<const void*>(&export_only_this_release), {"nvmlDeviceGetProcessesUtilizationInfo"});
}

}  // namespace
}  // namespace headgate::sim::nvml
