// Hides the functions that came after the node's driver release when the library is loaded.
//
// The library has the names of Debian's 535 library and a few newer ones, each with the CUDA version of the first
// driver that exports it: by NVIDIA's reference of driver 550, and by its change log "between NVML v610 and v615".
#include <vector>

#include "sim/exports.hpp"

namespace headgate::sim::nvml {
namespace {

struct NewerName {
  const char* name;
  int cuda_version;
};
constexpr NewerName kNewerNames[] = {{"nvmlDeviceGetProcessesUtilizationInfo", 12040},
                                     {"nvmlDeviceSetMemoryLimits_v1", 13040},
                                     {"nvmlDeviceGetMemoryLimits_v1", 13040}};

__attribute__((constructor)) void export_only_this_release() {
  const int version = cuda_version_at_load();
  std::vector<const char*> newer;
  for (const NewerName& each : kNewerNames)
    if (each.cuda_version > version) newer.push_back(each.name);
  if (!newer.empty()) hide_from_dlsym(reinterpret_cast<const void*>(&export_only_this_release), newer);
}

}  // namespace
}  // namespace headgate::sim::nvml
