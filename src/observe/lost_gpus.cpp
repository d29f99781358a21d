#include "observe/lost_gpus.hpp"

#include <utility>

#include "base/units.hpp"

namespace headgate::observe {
namespace {

constexpr const char* kTakenUpAtAStart =
    ": it is not committed and has no turns until headgated restarts; programs that run go on "
    "meanwhile";
constexpr const char* kGone = "is no longer listed by the driver";

snapshot::Event event_of(const char* kind, const char* severity, std::uint32_t index, const std::string& uuid,
                         const std::string& what) {
  return {.kind = kind,
          .severity = severity,
          .uuid = uuid,
          .text = "GPU " + std::to_string(index) + (uuid.empty() ? "" : " (" + uuid + ")") + " " + what};
}

snapshot::Event lost(std::uint32_t index, const std::string& uuid, const std::string& how) {
  return event_of("gpu.lost", "error", index, uuid, how + ": programs on it fail, and shares find no GPU there");
}

}  // namespace

std::vector<snapshot::Event> LostGpus::look(const std::vector<snapshot::Gpu>& gpus) {
  std::vector<snapshot::Event> events;
  std::set<std::string> answering;
  std::map<std::uint32_t, std::string> silent;  // with what the driver says of them
  for (const snapshot::Gpu& gpu : gpus) {
    if (gpu.uuid.empty()) silent.emplace(gpu.index, gpu.model);
    else answering.insert(gpu.uuid);
  }
  for (auto& [uuid, known] : known_) {
    if (answering.contains(uuid)) continue;
    const auto said = silent.extract(known.index);
    if (!std::exchange(known.lost, true)) events.push_back(lost(known.index, uuid, said ? said.mapped() : kGone));
  }
  for (const auto& [index, says] : silent)
    if (nameless_.insert(index).second) events.push_back(lost(index, "", says));
  for (const snapshot::Gpu& gpu : gpus) {
    if (gpu.uuid.empty()) continue;
    const bool was_silent = nameless_.erase(gpu.index) > 0;
    const auto [at, fresh] = known_.try_emplace(gpu.uuid);
    at->second.index = gpu.index;
    const auto found = [&](const char* severity, const std::string& what) {
      events.push_back(event_of("gpu.found", severity, gpu.index, gpu.uuid, what));
    };
    if (std::exchange(at->second.lost, false)) found("info", "answers again");
    else if (was_silent)
      found("warn", std::string("answers now, but did not when headgated started") + kTakenUpAtAStart);
    else if (fresh && looked_) found("warn", std::string("is new since headgated started") + kTakenUpAtAStart);
  }
  looked_ = true;
  return events;
}

namespace {

std::string text_of(std::chrono::nanoseconds time) { return duration_text(static_cast<std::uint64_t>(time.count())); }

}  // namespace

std::optional<snapshot::Event> DriverSilence::look(std::chrono::nanoseconds silence) {
  const bool told = longest_.count() > 0;
  if (silence > kDriverSilence) {
    longest_ = silence;
    if (told) return std::nullopt;
    return snapshot::Event{
        .kind = "gpu.silent",
        .severity = "error",
        .text = "the driver has not answered for " + text_of(silence) + ": figures of GPUs are old, limits hold"};
  }
  if (!told) return std::nullopt;
  return snapshot::Event{.kind = "gpu.answers",
                         .severity = "info",
                         .text = "the driver answers again, after " + text_of(std::exchange(longest_, {}))};
}

}  // namespace headgate::observe
