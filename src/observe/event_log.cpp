#include "observe/event_log.hpp"

#include <algorithm>
#include <chrono>

namespace headgate::observe {
namespace {

void make_harmless(std::string& text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = '?';
  }
}

}  // namespace

void EventLog::add(snapshot::Event event) {
  for (std::string* text : {&event.kind, &event.share, &event.uuid, &event.text}) make_harmless(*text);
  if (event.unix_ns == 0) {
    event.unix_ns = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
            .count());
  }
  {
    const std::scoped_lock lock(mutex_);
    event.sequence = ++last_;
    ring_.push_back(event);
    if (ring_.size() > capacity_) ring_.pop_front();
  }
  if (listener_) listener_(event);
}

std::vector<snapshot::Event> EventLog::after(std::uint64_t sequence, std::size_t most) const {
  const std::scoped_lock lock(mutex_);
  const auto first =
      std::ranges::partition_point(ring_, [&](const snapshot::Event& event) { return event.sequence <= sequence; });
  const auto count = std::min<std::size_t>(most, static_cast<std::size_t>(ring_.end() - first));
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

std::uint64_t EventLog::last_sequence() const {
  const std::scoped_lock lock(mutex_);
  return last_;
}

}  // namespace headgate::observe
