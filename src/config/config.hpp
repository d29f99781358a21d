// /etc/headgate/config.toml and conf.d/*.toml: every key has a default, an empty file is valid. A later drop-in (in the
// order of names) overrides an earlier one and the file.
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
  std::vector<Setting> settings;   // all keys, in the order of the table; then each "cards.MODEL" that was written
  std::vector<std::string> files;  // that were read
  std::vector<PowerGrant> power_grants;  // of all files; a drop-in adds to those before it

  std::vector<PowerProfile> power_profiles;  // of all files; a drop-in replaces those of the same name

  // The value of a key of the table; empty where none is set.
  [[nodiscard]] const Setting& operator[](std::string_view key) const;
  // Of a key whose values are whole numbers (its `most` is not 0).
  [[nodiscard]] std::uint32_t number(std::string_view key) const;
  // Of [cards]: what cards compute, by a part of their names.
  [[nodiscard]] GpuThroughput cards() const;
};

struct Key {
  std::string_view name;
  std::string_view fallback;  // the default
  std::string_view accepted;
  std::string_view meaning;
  std::uint32_t most = 0, least = 1;  // most not 0: values are whole numbers of these, in quotes or without
  bool list = false;                  // an array of texts is taken too, and is one text with commas then
};
[[nodiscard]] const std::vector<Key>& keys();

struct Reading {
  Config config;              // what could be read
  std::vector<Error> errors;  // "file:line: key = value ...", with what is accepted
};

inline constexpr const char* kDefaultFile = "/etc/headgate/config.toml";

// `file` and, beside it, conf.d/*.toml. A missing file is an empty one, unless `must_exist`.
[[nodiscard]] Reading read(const std::string& file, bool must_exist);

// The same from text, for tests and fuzzing: adds to `reading` as one more file of that name.
void read_text(std::string_view text, const std::string& name, Reading& reading);
[[nodiscard]] Reading defaults();

// Whether the daemon may listen there over TCP: beyond loopback only with a token. `said`: by whom, for errors:
// "--listen", "/etc/headgate/config.toml:3: node.listen =". Errors: usage.
[[nodiscard]] Result<void> may_listen(const std::string& said, const std::string& address, bool has_token);

}  // namespace headgate::config
