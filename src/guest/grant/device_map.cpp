#include "guest/grant/device_map.hpp"

#include "guest/grant/text.hpp"

namespace headgate::grant {

DeviceMap::Step DeviceMap::stop(Step step) {
  stopped_ = true;
  return last_ = step;
}

bool DeviceMap::take(char c) {
  rest_ = trimmed(rest_);
  if (rest_.empty() || rest_[0] != c) return false;
  rest_ = from(rest_, 1);
  return true;
}

bool DeviceMap::quoted(std::string_view& text) {
  if (!take('"')) return false;
  const std::size_t end = position(rest_, '"');
  if (end == rest_.size()) return false;
  text = first(rest_, end);
  rest_ = from(rest_, end + 1);
  return position(text, '\\') == text.size();
}

bool DeviceMap::scalar(std::string_view& text) {
  rest_ = trimmed(rest_);
  if (!rest_.empty() && rest_[0] == '"') return quoted(text);
  std::size_t end = 0;
  while (end < rest_.size() && rest_[end] != ',' && rest_[end] != '}' && !is_blank(rest_[end])) ++end;
  text = first(rest_, end);
  rest_ = from(rest_, end);
  return !text.empty();
}

DeviceMap::Step DeviceMap::next(Entry& entry) {
  if (stopped_) return last_;
  const bool first_entry = !opened_;
  if (first_entry && !take('{')) return stop(Step::malformed);
  opened_ = true;
  if (take('}')) return stop(trimmed(rest_).empty() ? Step::end : Step::malformed);
  if (!first_entry && !take(',')) return stop(Step::malformed);
  if (!quoted(entry.key) || !take(':') || !scalar(entry.value)) return stop(Step::malformed);
  return Step::entry;
}

}  // namespace headgate::grant
