// Removes the names of people, machines and programs from texts, and always removes secrets.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/support/archive.hpp"

namespace headgate::cli {

// Replaces each name with a word such as user-3f9a1c07, the same at every occurrence. The word is random instead of a
// hash, so that names cannot be found by trying candidates. Not thread-safe.
class Redactor {
 public:
  // Without `names`, removes only secrets.
  explicit Redactor(bool names) : names_(names) {}

  // Hides the name from now on, wherever it is a separate word. `kind`: "user", "host", "command", "place". Ignores
  // empty names, numbers, root and nobody.
  void hide(const std::string& kind, const std::string& name);
  // Calls hide() for the JSON fields "user", "owner", "command" and "where".
  void learn(std::string_view json);
  // Hides the text wherever it occurs, even without `names`.
  void hide_secret(const std::string& secret);

  // Redacts free text, including paths outside system directories.
  [[nodiscard]] std::string text(std::string_view text);
  // Redacts JSON values; keys and the words that programs compare stay. Invalid JSON is treated as free text.
  [[nodiscard]] std::string json(std::string_view json);
  // Redacts label values in Prometheus text.
  [[nodiscard]] std::string metrics(std::string_view page);

 private:
  [[nodiscard]] std::string word_for(const std::string& kind, const std::string& name);
  [[nodiscard]] std::string without_secrets(std::string_view text) const;
  [[nodiscard]] std::string without_names(std::string_view text) const;
  [[nodiscard]] std::string without_paths(std::string_view text);
  [[nodiscard]] std::string place(const std::string& where);
  [[nodiscard]] std::string of_process(const std::string& text, std::uint64_t pid);
  void walk(nlohmann::ordered_json& value, const std::string& key);
  void gather(const nlohmann::ordered_json& value);

  const bool names_;
  std::map<std::string, std::string> words_;  // name to word
  std::vector<std::string> hidden_;           // names to search free text for, longest first
  std::vector<std::string> secrets_;
};

// What remote support needs, for one archive.
struct Bundle {
  std::vector<ArchiveFile> files;
  std::vector<std::string> about;  // a description of each file
  std::vector<std::string> lacks;  // what is missing, and why
};

// Redacts each file by the type in its name: .json, .prom (metrics), or free text.
void redact(Bundle& bundle, Redactor& redactor);

}  // namespace headgate::cli
