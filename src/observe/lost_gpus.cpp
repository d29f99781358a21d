#include "observe/lost_gpus.hpp"

namespace headgate::observe {
namespace {

constexpr const char* kTakenUpAtAStart =
    "it is not sold, and nobody has turns there, until headgated is started anew; programs that run go on meanwhile";

}  // namespace

std::vector<snapshot::Event> LostGpus::look(const std::vector<snapshot::Gpu>& gpus) {
  std::vector<snapshot::Event> events;
  for (const snapshot::Gpu& gpu : gpus) {
    Known& known = known_[gpu.index];
    const bool lost = gpu.uuid.empty(), first = known.uuid.empty();
    if (!lost) known.uuid = gpu.uuid;
    if (lost == known.lost) continue;
    known.lost = lost;
    const std::string name = "GPU " + std::to_string(gpu.index) + (known.uuid.empty() ? "" : " (" + known.uuid + ")");
    snapshot::Event event;
    event.kind = lost ? "gpu.lost" : "gpu.found";
    event.severity = lost ? "error" : first ? "warn" : "info";
    event.uuid = known.uuid;
    if (lost) event.text = name + " " + gpu.model + ": programs on it fail, and shares find no GPU there";
    else if (first) event.text = name + " answers, as it did not when headgated started: " + kTakenUpAtAStart;
    else event.text = name + " answers again";
    events.push_back(event);
  }
  return events;
}

}  // namespace headgate::observe
