#include "oci/json_text.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/utf8.hpp"

namespace headgate::oci {
namespace {

// Builds the value itself: the parser's own callbacks, by which fields that are there twice could be seen too, take
// twice the time.
class JsonBuilder {
 public:
  explicit JsonBuilder(int most_depth) : most_depth_(most_depth) {}

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(Json::number_integer_t value) { return put(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return put(value); }
  bool number_float(Json::number_float_t value, const std::string&) { return put(value); }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // JSON has none
  bool start_object(std::size_t) { return open(Json::value_t::object); }
  bool start_array(std::size_t) { return open(Json::value_t::array); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    const auto [at, is_new] = open_.back()->get_ref<Json::object_t&>().try_emplace(std::move(name));
    if (!is_new && twice_.empty()) twice_ = at->first;
    field_ = &at->second;
    return true;
  }
  static bool parse_error(std::size_t, const std::string&, const Json::exception&) { return false; }

  [[nodiscard]] bool is_too_deep() const { return is_too_deep_; }
  [[nodiscard]] const std::string& twice() const { return twice_; }
  [[nodiscard]] Json take() { return std::move(root_); }

 private:
  // Where the next value belongs.
  template <typename Value>
  Json* place(Value&& value) {
    if (open_.empty()) return &(root_ = std::forward<Value>(value));
    if (open_.back()->is_array())
      return &open_.back()->get_ref<Json::array_t&>().emplace_back(std::forward<Value>(value));
    return &(*field_ = std::forward<Value>(value));
  }
  template <typename Value>
  bool put(Value&& value) {
    place(std::forward<Value>(value));
    return true;
  }
  bool open(Json::value_t kind) {
    is_too_deep_ = static_cast<int>(open_.size()) >= most_depth_;
    if (is_too_deep_) return false;
    open_.push_back(place(Json(kind)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const int most_depth_;
  Json root_;
  std::vector<Json*> open_;  // arrays do not grow while a part of theirs is open
  Json* field_ = nullptr;
  std::string twice_;
  bool is_too_deep_ = false;
};

}  // namespace

Result<Json> parse_json(std::string_view text, const JsonBounds& bounds) {
  if (text.size() > bounds.bytes)
    return fail(ErrorCode::usage, "is longer than " + std::to_string(bounds.bytes >> 20) + " MiB");
  JsonBuilder builder(bounds.depth);
  const bool is_json = Json::sax_parse(text.data(), text.data() + text.size(), &builder);
  if (builder.is_too_deep())
    return fail(ErrorCode::usage, "is nested more than " + std::to_string(bounds.depth) + " deep");
  if (!is_json) return fail(ErrorCode::usage, "is no JSON");
  if (!builder.twice().empty())
    return fail(ErrorCode::usage, "has the field '" + printable(builder.twice(), 80) + "' twice");
  return builder.take();
}

}  // namespace headgate::oci
