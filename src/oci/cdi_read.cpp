#include "oci/cdi_read.hpp"

#include <algorithm>
#include <concepts>
#include <nlohmann/json.hpp>

#include "base/utf8.hpp"
#include "oci/cdi_fields.hpp"
#include "oci/json_text.hpp"

namespace headgate::oci {
namespace {

constexpr int kMaxDepth = 16;  // a document has 6 levels

std::unexpected<Error> wrong(const std::string& at, const std::string& what, const std::string& hint = {}) {
  return fail(ErrorCode::usage, at.empty() ? what : at + ": " + what, hint);
}

// One object of the document: takes its fields one after another, and remembers the first that is wrong.
class Fields {
 public:
  Fields(const Json& json, std::string at, std::optional<Error>& error)
      : json_(json), at_(std::move(at)), error_(error) {
    if (!json.is_object()) complain("", "is no object");
  }

  void take(const char* key, std::string& out) {
    if (const Json* value = find(key)) {
      if (value->is_string()) out = value->get<std::string>();
      else complain(key, "is no text");
    }
  }
  void need(const char* key, std::string& out) {
    if (find(key) == nullptr) complain("", std::string("has no '") + key + "'");
    take(key, out);
  }
  void take(const char* key, bool& out) {
    if (const Json* value = find(key)) {
      if (value->is_boolean()) out = value->get<bool>();
      else complain(key, "is neither true nor false");
    }
  }
  template <std::integral Number>
  void take(const char* key, std::optional<Number>& out) {
    if (const Json* value = find(key)) out = number<Number>(*value, key);
  }
  void take(const char* key, std::vector<std::string>& out) {
    each(key, [&](const Json& value, const std::string& at) {
      if (value.is_string()) out.push_back(value.get<std::string>());
      else complain(at, "is no text");
    });
  }
  void take(const char* key, std::vector<std::uint32_t>& out) {
    each(key, [&](const Json& value, const std::string& at) { out.push_back(number<std::uint32_t>(value, at)); });
  }
  void take(const char* key, Annotations& out) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_object()) return complain(key, "is no object");
    for (const auto& [name, text] : value->items()) {
      if (text.is_string()) out[name] = text.get<std::string>();
      else complain(std::string(key) + "." + printable(name), "is no text");
    }
  }
  template <typename Part>
  void take(const char* key, std::vector<Part>& out) {
    each(key, [&](const Json& value, const std::string& at) { part(value, place(at), out.emplace_back()); });
  }
  void take(const char* key, std::optional<IntelRdt>& out) {
    if (const Json* value = find(key)) part(*value, place(key), out.emplace());
  }
  void take(const char* key, Edits& out) {
    if (const Json* value = find(key)) part(*value, place(key), out);
  }
  void always(const char* key, auto& out) { take(key, out); }

  // A field that is not known makes an engine refuse the whole file.
  void finish() {
    if (!json_.is_object()) return;
    for (const auto& [key, value] : json_.items()) {
      if (std::ranges::find(known_, key) == known_.end())
        complain("", "has an unknown field '" + printable(key, 80) + "'");
    }
  }

 private:
  [[nodiscard]] std::string place(const std::string& key) const {
    return at_.empty() || key.empty() ? at_ + key : at_ + "." + key;
  }
  void complain(const std::string& key, const std::string& what) {
    if (!error_) error_ = wrong(place(key), what).error();
  }
  template <typename Part>
  void part(const Json& value, std::string at, Part& out) {
    Fields fields(value, std::move(at), error_);
    visit_fields(fields, out);
    fields.finish();
  }
  const Json* find(const char* key) {
    known_.emplace_back(key);
    if (!json_.is_object()) return nullptr;
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  template <typename Visit>
  void each(const char* key, Visit visit) {
    const Json* list = find(key);
    if (list == nullptr) return;
    if (!list->is_array()) return complain(key, "is no list");
    for (std::size_t i = 0; i < list->size(); ++i) visit((*list)[i], std::string(key) + "[" + std::to_string(i) + "]");
  }
  template <typename Number>
  Number number(const Json& value, const std::string& at) {
    if (value.is_number_unsigned() && value.get<std::uint64_t>() <= std::numeric_limits<Number>::max())
      return value.get<Number>();
    if (std::is_signed_v<Number> && value.is_number_integer() && !value.is_number_unsigned())
      return value.get<Number>();
    complain(at, "is no whole number in its range");
    return 0;
  }

  const Json& json_;
  const std::string at_;
  std::optional<Error>& error_;
  std::vector<std::string_view> known_;  // names of the table: they live as long as the program
};

}  // namespace

Result<Document> read_json(std::string_view text) {
  const Json json = TRY(parse_json(text, {.bytes = kMaxDocumentBytes, .depth = kMaxDepth}));
  std::optional<Error> error;
  Document document;
  Fields fields(json, "", error);
  visit_fields(fields, document);
  fields.finish();
  if (document.version.starts_with('v')) document.version.erase(0, 1);
  if (error) return std::unexpected(std::move(*error));
  if (auto good = check(document); !good) return std::unexpected(std::move(good.error()));
  return document;
}

}  // namespace headgate::oci
