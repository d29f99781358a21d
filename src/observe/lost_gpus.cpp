#include "observe/lost_gpus.hpp"

namespace headgate::observe {

std::vector<snapshot::Event> LostGpus::look(const std::vector<snapshot::Gpu>& gpus) {
  std::vector<snapshot::Event> events;
  for (const snapshot::Gpu& gpu : gpus) {
    Known& known = known_[gpu.index];
    const bool lost = gpu.uuid.empty();
    if (!lost) known.uuid = gpu.uuid;
    if (lost == known.lost) continue;
    known.lost = lost;
    const std::string name = "GPU " + std::to_string(gpu.index) + (known.uuid.empty() ? "" : " (" + known.uuid + ")");
    snapshot::Event event;
    event.kind = lost ? "gpu.lost" : "gpu.found";
    event.severity = lost ? "error" : "info";
    event.uuid = known.uuid;
    event.text =
        lost ? name + " " + gpu.model + ": programs on it fail, and shares find no GPU there" : name + " answers again";
    events.push_back(event);
  }
  return events;
}

}  // namespace headgate::observe
