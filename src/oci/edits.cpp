#include "oci/edits.hpp"

#include <algorithm>

namespace headgate::oci {

void add(Edits& to, const Edits& more, Repeats repeats) {
  const auto put = [&](auto& list, const auto& values) {
    for (const auto& each : values)
      if (repeats == Repeats::kept || std::ranges::find(list, each) == list.end()) list.push_back(each);
  };
  put(to.env, more.env);
  put(to.device_nodes, more.device_nodes);
  put(to.net_devices, more.net_devices);
  put(to.hooks, more.hooks);
  put(to.mounts, more.mounts);
  if (more.intel_rdt) to.intel_rdt = more.intel_rdt;
  put(to.additional_gids, more.additional_gids);
}

}  // namespace headgate::oci
