#include <nlohmann/json.hpp>

#include "oci/cdi_document.hpp"

namespace headgate::oci {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Fields that are not there are left out, as older engines refuse those that they do not know.
void put(OrderedJson& object, const char* key, const std::string& value) {
  if (!value.empty()) object[key] = value;
}

template <typename Number>
void put(OrderedJson& object, const char* key, const std::optional<Number>& value) {
  if (value) object[key] = *value;
}

template <typename Value>
void put(OrderedJson& object, const char* key, const std::vector<Value>& values) {
  if (!values.empty()) object[key] = values;
}

void put(OrderedJson& object, const char* key, const Annotations& values) {
  if (!values.empty()) object[key] = values;
}

void put_flag(OrderedJson& object, const char* key, bool value) {
  if (value) object[key] = true;
}

template <typename Value>
void put_each(OrderedJson& object, const char* key, const std::vector<Value>& values,
              OrderedJson (*write)(const Value&)) {
  for (const Value& value : values) object[key].push_back(write(value));
}

OrderedJson node_json(const DeviceNode& node) {
  OrderedJson json = {{"path", node.path}};
  put(json, "hostPath", node.host_path);
  put(json, "type", node.type);
  put(json, "major", node.major);
  put(json, "minor", node.minor);
  put(json, "fileMode", node.file_mode);
  put(json, "permissions", node.permissions);
  put(json, "uid", node.uid);
  put(json, "gid", node.gid);
  return json;
}

OrderedJson net_device_json(const NetDevice& device) {
  return {{"hostInterfaceName", device.host_interface}, {"name", device.name}};
}

OrderedJson hook_json(const Hook& hook) {
  OrderedJson json = {{"hookName", hook.name}, {"path", hook.path}};
  put(json, "args", hook.args);
  put(json, "env", hook.env);
  put(json, "timeout", hook.timeout_s);
  return json;
}

OrderedJson mount_json(const Mount& mount) {
  OrderedJson json = {{"hostPath", mount.host_path}, {"containerPath", mount.container_path}};
  put(json, "type", mount.type);
  put(json, "options", mount.options);
  return json;
}

OrderedJson rdt_json(const IntelRdt& rdt) {
  OrderedJson json = OrderedJson::object();
  put(json, "closID", rdt.clos_id);
  put(json, "l3CacheSchema", rdt.l3_cache_schema);
  put(json, "memBwSchema", rdt.mem_bw_schema);
  put_flag(json, "enableCMT", rdt.enable_cmt);
  put_flag(json, "enableMBM", rdt.enable_mbm);
  put(json, "schemata", rdt.schemata);
  put_flag(json, "enableMonitoring", rdt.enable_monitoring);
  return json;
}

OrderedJson edits_json(const Edits& edits) {
  OrderedJson json = OrderedJson::object();
  put(json, "env", edits.env);
  put_each(json, "deviceNodes", edits.device_nodes, node_json);
  put_each(json, "netDevices", edits.net_devices, net_device_json);
  put_each(json, "hooks", edits.hooks, hook_json);
  put_each(json, "mounts", edits.mounts, mount_json);
  if (edits.intel_rdt) json["intelRdt"] = rdt_json(*edits.intel_rdt);
  put(json, "additionalGids", edits.additional_gids);
  return json;
}

}  // namespace

std::string to_json(const Document& document) {
  OrderedJson json = {{"cdiVersion", document.version}, {"kind", document.kind}};
  put(json, "annotations", document.annotations);
  json["devices"] = OrderedJson::array();
  for (const Device& device : document.devices) {
    OrderedJson one = {{"name", device.name}};
    put(one, "annotations", device.annotations);
    one["containerEdits"] = edits_json(device.edits);
    json["devices"].push_back(std::move(one));
  }
  if (document.edits != Edits{}) json["containerEdits"] = edits_json(document.edits);
  // What is no UTF-8 is replaced: paths on the host may hold any bytes, JSON may not.
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace headgate::oci
