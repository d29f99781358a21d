#include "oci/cdi_read.hpp"

#include <nlohmann/json.hpp>
#include <set>

#include "base/utf8.hpp"

namespace headgate::oci {
namespace {

using Json = nlohmann::json;

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
  template <typename Number>
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
  // Lists of objects, and one object.
  template <typename Value>
  void take(const char* key, std::vector<Value>& out, void (*read)(Fields&, Value&)) {
    each(key, [&](const Json& value, const std::string& at) {
      Fields fields(value, place(at), error_);
      read(fields, out.emplace_back());
      fields.finish();
    });
  }
  template <typename Value>
  void take(const char* key, Value& out, void (*read)(Fields&, Value&)) {
    if (const Json* value = find(key)) {
      Fields fields(*value, place(key), error_);
      read(fields, out);
      fields.finish();
    }
  }
  [[nodiscard]] bool has(const char* key) { return find(key) != nullptr; }

  // A field that is not known makes an engine refuse the whole file.
  void finish() {
    if (!json_.is_object()) return;
    for (const auto& [key, value] : json_.items()) {
      if (!known_.contains(key)) complain("", "has an unknown field '" + printable(key, 80) + "'");
    }
  }

 private:
  [[nodiscard]] std::string place(const std::string& key) const {
    return at_.empty() || key.empty() ? at_ + key : at_ + "." + key;
  }
  void complain(const std::string& key, const std::string& what) {
    if (!error_) error_ = wrong(place(key), what).error();
  }
  const Json* find(const char* key) {
    known_.insert(key);
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
  std::set<std::string, std::less<>> known_;
};

void read(Fields& fields, DeviceNode& node) {
  fields.need("path", node.path);
  fields.take("hostPath", node.host_path);
  fields.take("type", node.type);
  fields.take("major", node.major);
  fields.take("minor", node.minor);
  fields.take("fileMode", node.file_mode);
  fields.take("permissions", node.permissions);
  fields.take("uid", node.uid);
  fields.take("gid", node.gid);
}

void read(Fields& fields, NetDevice& device) {
  fields.need("hostInterfaceName", device.host_interface);
  fields.need("name", device.name);
}

void read(Fields& fields, Hook& hook) {
  fields.need("hookName", hook.name);
  fields.need("path", hook.path);
  fields.take("args", hook.args);
  fields.take("env", hook.env);
  fields.take("timeout", hook.timeout_s);
}

void read(Fields& fields, Mount& mount) {
  fields.need("hostPath", mount.host_path);
  fields.need("containerPath", mount.container_path);
  fields.take("type", mount.type);
  fields.take("options", mount.options);
}

void read(Fields& fields, IntelRdt& rdt) {
  fields.take("closID", rdt.clos_id);
  fields.take("l3CacheSchema", rdt.l3_cache_schema);
  fields.take("memBwSchema", rdt.mem_bw_schema);
  fields.take("enableCMT", rdt.enable_cmt);
  fields.take("enableMBM", rdt.enable_mbm);
  fields.take("schemata", rdt.schemata);
  fields.take("enableMonitoring", rdt.enable_monitoring);
}

void read(Fields& fields, Edits& edits) {
  fields.take("env", edits.env);
  fields.take<DeviceNode>("deviceNodes", edits.device_nodes, read);
  fields.take<NetDevice>("netDevices", edits.net_devices, read);
  fields.take<Hook>("hooks", edits.hooks, read);
  fields.take<Mount>("mounts", edits.mounts, read);
  if (fields.has("intelRdt")) fields.take<IntelRdt>("intelRdt", edits.intel_rdt.emplace(), read);
  fields.take("additionalGids", edits.additional_gids);
}

void read(Fields& fields, Device& device) {
  fields.need("name", device.name);
  fields.take("annotations", device.annotations);
  fields.take<Edits>("containerEdits", device.edits, read);
}

void read(Fields& fields, Document& document) {
  fields.need("cdiVersion", document.version);
  fields.need("kind", document.kind);
  fields.take("annotations", document.annotations);
  fields.take<Device>("devices", document.devices, read);
  fields.take<Edits>("containerEdits", document.edits, read);
  if (document.version.starts_with('v')) document.version.erase(0, 1);
}

// The text as values. nlohmann keeps the last of two equal keys, and an engine refuses them.
Result<Json> parse(std::string_view text) {
  if (text.size() > kMaxDocumentBytes) return wrong("", "is longer than 4 MiB");
  std::vector<std::set<std::string>> keys;
  std::string twice;
  bool deep = false;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    deep = deep || depth > kMaxDepth;
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.empty() && !keys.back().insert(value.get<std::string>()).second &&
        twice.empty())
      twice = value.get<std::string>();
    return depth <= kMaxDepth;
  };
  Json json = Json::parse(text, watch, false);
  if (deep) return wrong("", "is nested more than " + std::to_string(kMaxDepth) + " deep");
  if (json.is_discarded()) return wrong("", "is no JSON");
  if (!twice.empty()) return wrong("", "has the field '" + printable(twice, 80) + "' twice");
  return json;
}

}  // namespace

Result<Document> read_json(std::string_view text) {
  const Json json = TRY(parse(text));
  std::optional<Error> error;
  Document document;
  Fields fields(json, "", error);
  read(fields, document);
  fields.finish();
  if (error) return std::unexpected(std::move(*error));
  if (auto good = check(document); !good) return std::unexpected(std::move(good.error()));
  return document;
}

}  // namespace headgate::oci
