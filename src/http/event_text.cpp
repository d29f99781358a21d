#include "http/event_text.hpp"

#include <utility>

namespace headgate::http {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::string one_line(std::string text) {
  std::erase_if(text, [](char c) { return c == '\n' || c == '\r' || c == '\0'; });
  return text;
}

}  // namespace

std::string event_text(const Event& event) {
  std::string text;
  if (!event.id.empty()) text += "id: " + one_line(event.id) + "\n";
  if (!event.name.empty()) text += "event: " + one_line(event.name) + "\n";
  text += "data: ";
  for (std::size_t i = 0; i < event.data.size(); ++i) {
    const char c = event.data[i];
    if (c == '\r' && i + 1 < event.data.size() && event.data[i + 1] == '\n') continue;
    if (c == '\n' || c == '\r') {
      text += "\ndata: ";
    } else {
      text += c;
    }
  }
  return text += "\n\n";
}

bool EventReader::feed(std::string_view bytes) {
  for (const char c : bytes) {
    if (refused_) return false;
    if (c == '\n' && std::exchange(after_cr_, false)) continue;
    after_cr_ = c == '\r';
    if (c == '\n' || c == '\r') {
      end_line();
    } else {
      line_ += c;
      refused_ = line_.size() + event_.data.size() > most_bytes_;
    }
  }
  return !refused_;
}

std::optional<Event> EventReader::next() {
  if (ready_.empty()) return std::nullopt;
  Event event = std::move(ready_.front());
  ready_.pop_front();
  return event;
}

void EventReader::end_line() {
  std::string line = std::exchange(line_, {});
  if (std::exchange(at_start_, false) && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
  if (line.empty()) {
    Event event = std::exchange(event_, {});
    if (!std::exchange(has_data_, false)) return;
    event.data.pop_back();
    event.id = id_;
    ready_.push_back(std::move(event));
    return;
  }
  const auto colon = line.find(':');
  const std::string_view name = std::string_view(line).substr(0, colon);
  std::string_view value = colon == std::string::npos ? std::string_view() : std::string_view(line).substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name == "data") {
    event_.data.append(value) += '\n';
    has_data_ = true;
  } else if (name == "event") {
    event_.name = value;
  } else if (name == "id" && value.find('\0') == std::string_view::npos) {
    id_ = value;
  }
}

}  // namespace headgate::http
