#include "oci/cdi_read.hpp"

#include <algorithm>
#include <array>
#include <concepts>
#include <nlohmann/json.hpp>

#include "base/utf8.hpp"
#include "oci/cdi_fields.hpp"
#include "oci/json_text.hpp"

namespace headgate::oci {
namespace {

constexpr int kMaxDepth = 16;               // a document has 6 levels
constexpr std::size_t kMostFields = 2 * 9;  // of a device node; one that is needed is looked up twice

std::unexpected<Error> wrong(const std::string& at, const std::string& what, const std::string& hint = {}) {
  return fail(ErrorCode::usage, at.empty() ? what : at + ": " + what, hint);
}

// Where a value is: "devices[3].containerEdits". Its text is made only of one that is wrong.
struct Place {
  static constexpr std::size_t kNoIndex = static_cast<std::size_t>(-1);

  const Place* within = nullptr;
  std::string_view key{};  // empty: the document
  std::size_t index = kNoIndex;

  [[nodiscard]] std::string text() const {
    std::string all = within == nullptr ? "" : within->text();
    if (key.empty()) return all;
    all += (all.empty() ? "" : ".") + std::string(key);
    return index == kNoIndex ? all : all + "[" + std::to_string(index) + "]";
  }
};

// One object of the document: takes its fields one after another, and remembers the first that is wrong.
class Fields {
 public:
  Fields(const Json& json, const Place& at, std::optional<Error>& error) : json_(json), at_(at), error_(error) {
    if (!json.is_object()) complain(at_, "is no object");
  }

  void take(const char* key, std::string& out) {
    if (const Json* value = find(key)) {
      if (value->is_string()) out = value->get_ref<const std::string&>();
      else complain(place(key), "is no text");
    }
  }
  void need(const char* key, std::string& out) {
    if (find(key) == nullptr) complain(at_, std::string("has no '") + key + "'");
    take(key, out);
  }
  void take(const char* key, bool& out) {
    if (const Json* value = find(key)) {
      if (value->is_boolean()) out = value->get<bool>();
      else complain(place(key), "is neither true nor false");
    }
  }
  template <std::integral Number>
  void take(const char* key, std::optional<Number>& out) {
    if (const Json* value = find(key)) out = number<Number>(*value, place(key));
  }
  void take(const char* key, std::vector<std::string>& out) {
    each(key, out, [&](const Json& value, const Place& at) {
      if (value.is_string()) out.push_back(value.get_ref<const std::string&>());
      else complain(at, "is no text");
    });
  }
  void take(const char* key, std::vector<std::uint32_t>& out) {
    each(key, out, [&](const Json& value, const Place& at) { out.push_back(number<std::uint32_t>(value, at)); });
  }
  void take(const char* key, Annotations& out) {
    const Json* value = find(key);
    if (value == nullptr) return;
    const Place at = place(key);
    if (!value->is_object()) return complain(at, "is no object");
    for (const auto& [name, text] : value->items()) {
      if (text.is_string()) out[name] = text.get<std::string>();
      else complain({.within = &at, .key = printable(name)}, "is no text");
    }
  }
  template <typename Part>
  void take(const char* key, std::vector<Part>& out) {
    each(key, out, [&](const Json& value, const Place& at) { part(value, at, out.emplace_back()); });
  }
  void take(const char* key, std::optional<IntelRdt>& out) {
    if (const Json* value = find(key)) part(*value, place(key), out.emplace());
  }
  void take(const char* key, Edits& out) {
    if (const Json* value = find(key)) part(*value, place(key), out);
  }
  void always(const char* key, auto& out) { take(key, out); }

  // Engines refuse a whole file because of an unknown field.
  void finish() {
    if (!json_.is_object()) return;
    for (const auto& [key, value] : json_.items()) {
      const auto end = known_.begin() + static_cast<std::ptrdiff_t>(known_count_);
      if (std::find(known_.begin(), end, key) == end)
        complain(at_, "has an unknown field '" + printable(key, 80) + "'");
    }
  }

 private:
  [[nodiscard]] Place place(const char* key) const { return {.within = &at_, .key = key}; }
  void complain(const Place& at, const std::string& what) {
    if (!error_) error_ = wrong(at.text(), what).error();
  }
  template <typename Part>
  void part(const Json& value, const Place& at, Part& out) {
    Fields fields(value, at, error_);
    visit_fields(fields, out);
    fields.finish();
  }
  const Json* find(const char* key) {
    known_.at(known_count_++) = key;
    if (!json_.is_object()) return nullptr;
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  void each(const char* key, auto& out, auto visit) {
    const Json* list = find(key);
    if (list == nullptr) return;
    Place at = place(key);
    if (!list->is_array()) return complain(at, "is no list");
    out.reserve(list->size());
    for (at.index = 0; at.index < list->size(); ++at.index) visit((*list)[at.index], at);
  }
  template <typename Number>
  Number number(const Json& value, const Place& at) {
    if (value.is_number_unsigned() && value.get<std::uint64_t>() <= std::numeric_limits<Number>::max())
      return value.get<Number>();
    if (std::is_signed_v<Number> && value.is_number_integer() && !value.is_number_unsigned())
      return value.get<Number>();
    complain(at, "is no whole number in its range");
    return 0;
  }

  const Json& json_;
  const Place& at_;
  std::optional<Error>& error_;
  std::array<std::string_view, kMostFields> known_;  // names of the table: they live as long as the program
  std::size_t known_count_ = 0;
};

}  // namespace

Result<Document> read_json(std::string_view text) {
  const Json json = TRY(parse_json(text, {.bytes = kMaxDocumentBytes, .depth = kMaxDepth}));
  std::optional<Error> error;
  Document document;
  const Place document_itself;
  Fields fields(json, document_itself, error);
  visit_fields(fields, document);
  fields.finish();
  if (document.version.starts_with('v')) document.version.erase(0, 1);
  if (error) return std::unexpected(std::move(*error));
  TRY(check(document));
  return document;
}

}  // namespace headgate::oci
