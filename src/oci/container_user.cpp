#include "oci/container_user.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

namespace headgate::oci {
namespace {

constexpr std::uint32_t kOverflowId = 65534;

std::optional<std::uint32_t> id_of(const Json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_number_unsigned()) return std::nullopt;
  const auto value = object[key].get<std::uint64_t>();
  return value <= UINT32_MAX ? std::optional(static_cast<std::uint32_t>(value)) : std::nullopt;
}

const Json& list_at(const Json& json, const char* outer, const char* inner) {
  static const Json kEmpty = Json::array();
  if (!json.contains(outer) || !json[outer].is_object() || !json[outer].contains(inner)) return kEmpty;
  const Json& list = json[outer][inner];
  return list.is_array() ? list : kEmpty;
}

std::uint32_t mapped(const Json& mappings, std::uint32_t id) {
  for (const Json& each : mappings) {
    const auto inside = id_of(each, "containerID"), outside = id_of(each, "hostID"), size = id_of(each, "size");
    if (inside && outside && size && id >= *inside && id - *inside < *size) return *outside + (id - *inside);
  }
  return kOverflowId;
}

}  // namespace

ContainerUser container_user(const ContainerConfig& config) {
  const Json& json = config.json();
  ContainerUser user;
  user.has_user_namespace = std::ranges::any_of(list_at(json, "linux", "namespaces"), [](const Json& each) {
    return each.is_object() && each.contains("type") && each["type"] == "user";
  });
  const auto uid = [&](std::uint32_t id) {
    return user.has_user_namespace ? mapped(list_at(json, "linux", "uidMappings"), id) : id;
  };
  const auto gid = [&](std::uint32_t id) {
    return user.has_user_namespace ? mapped(list_at(json, "linux", "gidMappings"), id) : id;
  };
  const Json none = Json::object();
  const Json& said = json.contains("process") && json["process"].is_object() && json["process"].contains("user")
                         ? json["process"]["user"]
                         : none;
  user.uid = uid(id_of(said, "uid").value_or(0));
  user.gid = gid(id_of(said, "gid").value_or(0));
  if (said.is_object() && said.contains("additionalGids"))  // whose type was checked at the reading
    for (const Json& each : said["additionalGids"]) user.groups.push_back(gid(each.get<std::uint32_t>()));
  return user;
}

}  // namespace headgate::oci
