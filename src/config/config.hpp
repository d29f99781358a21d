// /etc/headgate/config.toml and conf.d/*.toml: every key has a default, and an empty file is valid. Drop-ins override
// the file and earlier drop-ins, in order of their names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/gpu_throughput.hpp"
#include "base/result.hpp"
#include "config/power_grants.hpp"
#include "config/power_settings.hpp"

namespace headgate::config {

struct Setting {
  std::string key;     // "defaults.mem"
  std::string value;   // as text; empty: none
  std::string origin;  // "default" or "/etc/headgate/config.toml:3"

  friend bool operator==(const Setting&, const Setting&) = default;
};

struct Config {
  std::vector<Setting> settings;         // all keys, in table order; then each "cards.MODEL" that is set
  std::vector<std::string> files;        // files that were read
  std::vector<PowerGrant> power_grants;  // from all files; a drop-in adds to earlier ones

  std::vector<PowerProfile> power_profiles;  // from all files; a drop-in replaces profiles of the same name

  // Returns the value of a key of the table; empty if none is set.
  [[nodiscard]] const Setting& operator[](std::string_view key) const;
  // Returns the value of a key with integer values (its `most` is not 0).
  [[nodiscard]] std::uint32_t number(std::string_view key) const;
  // Returns [cards]: GPU throughput by a substring of the GPU's name.
  [[nodiscard]] GpuThroughput cards() const;
};

struct Key {
  std::string_view name;
  std::string_view fallback;  // the default
  std::string_view accepted;
  std::string_view meaning;
  std::uint32_t most = 0, least = 1;  // if `most` is not 0, values are integers in this range, quoted or not
  bool list = false;                  // also accepts an array of texts, stored as comma-separated text
  bool choice = false;                // values are the words in `accepted`
};
[[nodiscard]] const std::vector<Key>& keys();

struct Reading {
  Config config;              // what could be parsed
  std::vector<Error> errors;  // "file:line: key = value ...", with what is accepted
};

inline constexpr const char* kDefaultFile = "/etc/headgate/config.toml";

// Reads `file` and the conf.d/*.toml beside it. A missing file counts as empty, unless `must_exist`.
[[nodiscard]] Reading read(const std::string& file, bool must_exist);

// The same from text, for tests and fuzzing: adds it to `reading` as another file of that name.
void read_text(std::string_view text, const std::string& name, Reading& reading);
[[nodiscard]] Reading defaults();

// Checks that the daemon may listen on this TCP address: beyond loopback only with a token. `said`: the source, for
// errors: "--listen", "/etc/headgate/config.toml:3: node.listen =". Errors: usage.
[[nodiscard]] Result<void> may_listen(const std::string& said, const std::string& address, bool has_token);

}  // namespace headgate::config
