#include "cli/term/output_format.hpp"

#include <algorithm>

namespace headgate::cli {
namespace {

// In the order of Format.
const std::vector<std::string> kNames = {"table", "wide", "json", "jsonl", "csv"};

std::vector<Format> forms_of_word(const std::string& word) {
  for (const std::string_view list :
       {"status", "ps", "free", "events", "share ls", "share show", "gpu ls", "power status", "power watch"}) {
    if (word == list) return {Format::table, Format::wide, Format::json, Format::jsonl, Format::csv};
  }
  // A Prometheus page and a shell script have no JSON form; asking for one is refused instead of ignored.
  if (word == "metrics") return {Format::table, Format::jsonl};
  if (word == "completion") return {Format::table};
  if (word == "quota ls") return {Format::table, Format::json, Format::jsonl, Format::csv};
  return {Format::table, Format::json};
}

}  // namespace

const std::vector<std::string>& form_names() { return kNames; }

Result<Format> output_format_from(const std::string& word, const std::string& name) {
  const auto forms = forms_of_word(word);
  std::string accepted;
  for (const Format form : forms) {
    const std::string& known = kNames[static_cast<std::size_t>(form)];
    if (known == name) return form;
    accepted += (accepted.empty() ? "" : form == forms.back() ? " or " : ", ") + known;
  }
  return fail(ErrorCode::usage, word + ": output format '" + harmless(name) + "' is not supported",
              "accepted: " + accepted);
}

}  // namespace headgate::cli
