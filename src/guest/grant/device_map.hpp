// Parses a flat JSON object in TensorFusion's limit format: {"GPU-9c2f...": 8589934592, "1": "3g"}. Reads one entry at
// a time, in place. Supports no nesting and no escapes in keys (a UUID or an index needs none).
#pragma once

#include <cstddef>
#include <string_view>

namespace headgate::grant {

class DeviceMap {
 public:
  explicit DeviceMap(std::string_view json) : rest_(json) {}

  struct Entry {
    std::string_view key;
    std::string_view value;  // a number as written, or a string without its quotes
  };
  enum class Step { entry, end, malformed };

  // malformed and end are final.
  [[nodiscard]] Step next(Entry& entry);

 private:
  bool take(char c);
  bool quoted(std::string_view& text);
  bool scalar(std::string_view& text);
  Step stop(Step step);

  std::string_view rest_;
  bool opened_ = false;
  bool stopped_ = false;
  Step last_ = Step::end;
};

}  // namespace headgate::grant
