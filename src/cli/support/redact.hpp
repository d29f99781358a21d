// Takes out of texts what names people, machines and programs, and always what is secret.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace headgate::cli {

// In place of a name stands a word such as user-3f9a1c07, the same wherever the name stands. It is drawn by chance
// rather than computed from the name: without this object nobody finds the name by trying all that there may be. Not
// thread-safe.
class Redactor {
 public:
  // Without `names` only secrets are taken out.
  explicit Redactor(bool names) : names_(names) {}

  // From now on hidden wherever it stands as a word of its own. `kind`: "user", "host", "command", "place". Nothing is
  // done for an empty name, a number, and root.
  void hide(const std::string& kind, const std::string& name);
  // As hide(): the names that JSON tells of in its fields "user", "owner", "command" and "where".
  void learn(std::string_view json);
  // Hidden wherever it stands, also without `names`.
  void hide_secret(const std::string& secret);

  // Free text; paths outside the system's own directories are hidden too.
  [[nodiscard]] std::string text(std::string_view text);
  // Of JSON the values: keys, and the words that programs compare, stay. Text that is no JSON is taken as free text.
  [[nodiscard]] std::string json(std::string_view json);
  // Of Prometheus' text the labels' values.
  [[nodiscard]] std::string metrics(std::string_view page);

 private:
  [[nodiscard]] std::string word_for(const std::string& kind, const std::string& name);
  [[nodiscard]] std::string without_secrets(std::string_view text) const;
  [[nodiscard]] std::string without_names(std::string_view text) const;
  [[nodiscard]] std::string without_paths(std::string_view text);
  [[nodiscard]] std::string place(const std::string& where);
  [[nodiscard]] std::string of_process(const std::string& text, std::uint64_t pid);
  template <typename Json>
  void walk(Json& value, const std::string& key);
  template <typename Json>
  void gather(const Json& value);

  const bool names_;
  std::map<std::string, std::string> words_;  // name to word
  std::vector<std::string> hidden_;           // names that free text is searched for, the longest first
  std::vector<std::string> secrets_;
};

}  // namespace headgate::cli
