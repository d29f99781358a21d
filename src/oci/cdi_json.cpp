#include <nlohmann/json.hpp>

#include "oci/cdi_fields.hpp"

namespace headgate::oci {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Omits empty fields, because older engines refuse fields that they do not know.
class FieldWriter {
 public:
  void need(const char* key, const std::string& value) { json_[key] = value; }
  void take(const char* key, const std::string& value) {
    if (!value.empty()) json_[key] = value;
  }
  void take(const char* key, bool value) {
    if (value) json_[key] = true;
  }
  template <std::integral Number>
  void take(const char* key, const std::optional<Number>& value) {
    if (value) json_[key] = *value;
  }
  void take(const char* key, const Annotations& values) {
    if (!values.empty()) json_[key] = values;
  }
  template <typename Value>
  void take(const char* key, const std::vector<Value>& values) {
    if (!values.empty()) always(key, values);
  }
  void take(const char* key, const std::optional<IntelRdt>& value) {
    if (value) always(key, *value);
  }
  void take(const char* key, const Edits& value) {
    if (value != Edits{}) always(key, value);
  }
  template <typename Value>
  void always(const char* key, const Value& value) {
    json_[key] = to_json(value);
  }

  [[nodiscard]] OrderedJson json() && { return std::move(json_); }

  template <typename Part>
  [[nodiscard]] static OrderedJson to_json(const Part& part) {
    FieldWriter writer;
    visit_fields(writer, part);
    return std::move(writer).json();
  }
  [[nodiscard]] static OrderedJson to_json(const std::string& text) { return text; }
  [[nodiscard]] static OrderedJson to_json(std::uint32_t number) { return number; }
  template <typename Value>
  [[nodiscard]] static OrderedJson to_json(const std::vector<Value>& values) {
    OrderedJson list = OrderedJson::array();
    for (const Value& each : values) list.push_back(to_json(each));
    return list;
  }

 private:
  OrderedJson json_ = OrderedJson::object();
};

}  // namespace

nlohmann::ordered_json to_json(const Hook& hook) { return FieldWriter::to_json(hook); }
nlohmann::ordered_json to_json(const IntelRdt& rdt) { return FieldWriter::to_json(rdt); }

std::string to_json(const Document& document) {
  // What is no UTF-8 is replaced: paths on the host may hold any bytes, JSON may not.
  return FieldWriter::to_json(document).dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace headgate::oci
