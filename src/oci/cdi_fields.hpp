// The fields of each part of a CDI document, listed once for reader and writer. A visitor has need() for required
// fields, always() for fields written even if empty, and take() for the rest.
#pragma once

#include <concepts>
#include <type_traits>

#include "oci/cdi_document.hpp"

namespace headgate::oci {

template <typename Value, typename Part>
concept SamePart = std::same_as<std::remove_const_t<Value>, Part>;

void visit_fields(auto& visitor, SamePart<DeviceNode> auto& node) {
  visitor.need("path", node.path);
  visitor.take("hostPath", node.host_path);
  visitor.take("type", node.type);
  visitor.take("major", node.major);
  visitor.take("minor", node.minor);
  visitor.take("fileMode", node.file_mode);
  visitor.take("permissions", node.permissions);
  visitor.take("uid", node.uid);
  visitor.take("gid", node.gid);
}

void visit_fields(auto& visitor, SamePart<NetDevice> auto& device) {
  visitor.need("hostInterfaceName", device.host_interface);
  visitor.need("name", device.name);
}

void visit_fields(auto& visitor, SamePart<Hook> auto& hook) {
  visitor.need("hookName", hook.name);
  visitor.need("path", hook.path);
  visitor.take("args", hook.args);
  visitor.take("env", hook.env);
  visitor.take("timeout", hook.timeout_s);
}

void visit_fields(auto& visitor, SamePart<Mount> auto& mount) {
  visitor.need("hostPath", mount.host_path);
  visitor.need("containerPath", mount.container_path);
  visitor.take("type", mount.type);
  visitor.take("options", mount.options);
}

void visit_fields(auto& visitor, SamePart<IntelRdt> auto& rdt) {
  visitor.take("closID", rdt.clos_id);
  visitor.take("l3CacheSchema", rdt.l3_cache_schema);
  visitor.take("memBwSchema", rdt.mem_bw_schema);
  visitor.take("enableCMT", rdt.enable_cmt);
  visitor.take("enableMBM", rdt.enable_mbm);
  visitor.take("schemata", rdt.schemata);
  visitor.take("enableMonitoring", rdt.enable_monitoring);
}

void visit_fields(auto& visitor, SamePart<Edits> auto& edits) {
  visitor.take("env", edits.env);
  visitor.take("deviceNodes", edits.device_nodes);
  visitor.take("netDevices", edits.net_devices);
  visitor.take("hooks", edits.hooks);
  visitor.take("mounts", edits.mounts);
  visitor.take("intelRdt", edits.intel_rdt);
  visitor.take("additionalGids", edits.additional_gids);
}

void visit_fields(auto& visitor, SamePart<Device> auto& device) {
  visitor.need("name", device.name);
  visitor.take("annotations", device.annotations);
  visitor.always("containerEdits", device.edits);
}

void visit_fields(auto& visitor, SamePart<Document> auto& document) {
  visitor.need("cdiVersion", document.version);
  visitor.need("kind", document.kind);
  visitor.take("annotations", document.annotations);
  visitor.always("devices", document.devices);
  visitor.take("containerEdits", document.edits);
}

}  // namespace headgate::oci
