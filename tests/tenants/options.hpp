// Command line after the program's name: --key value, --flag, and the rest.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace headgate::tenant {

struct Option {
  const char* name;   // "--device"
  const char* value;  // "N", or nullptr for a flag
  const char* text;
};

class Options {
 public:
  // --help prints `about` and the options, and exits 0; an unknown option is an error with exit status 2.
  Options(int argc, char** argv, const char* about, std::vector<Option> known);

  [[nodiscard]] bool flag(const std::string& name) const { return values_.contains(name); }
  [[nodiscard]] std::string text(const std::string& name, const std::string& otherwise) const;
  // Exits 2 if the value is not an integer of at most `most`.
  [[nodiscard]] std::uint64_t number(const std::string& name, std::uint64_t otherwise, std::uint64_t most) const;
  [[nodiscard]] const std::vector<std::string>& rest() const { return rest_; }

 private:
  std::map<std::string, std::string> values_;
  std::vector<std::string> rest_;
};

// Parses bytes: an integer, optionally followed by KiB, MiB or GiB. Exits 2 on anything else.
[[nodiscard]] std::uint64_t parse_bytes(const std::string& text);

}  // namespace headgate::tenant
