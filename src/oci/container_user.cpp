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

std::uint32_t mapped(const Json* mappings, std::uint32_t id) {
  if (mappings == nullptr || !mappings->is_array()) return kOverflowId;
  for (const Json& each : *mappings) {
    const auto inside = id_of(each, "containerID"), outside = id_of(each, "hostID"), size = id_of(each, "size");
    if (inside && outside && size && id >= *inside && id - *inside < *size) return *outside + (id - *inside);
  }
  return kOverflowId;
}

}  // namespace

ContainerUser container_user(const ContainerConfig& config) {
  ContainerUser user;
  const Json* const namespaces = config.at({"linux", "namespaces"});
  user.has_user_namespace = namespaces != nullptr &&
                            std::ranges::any_of(*namespaces, [](const Json& each) { return each["type"] == "user"; });
  const auto id_in = [&](const char* mappings, std::uint32_t id) {
    return user.has_user_namespace ? mapped(config.at({"linux", mappings}), id) : id;
  };
  // Their types were checked at the reading.
  const Json none = Json::object();
  const Json* const at = config.at({"process", "user"});
  const Json& said = at == nullptr ? none : *at;
  user.uid = id_in("uidMappings", id_of(said, "uid").value_or(0));
  user.gid = id_in("gidMappings", id_of(said, "gid").value_or(0));
  if (const Json* groups = config.at({"process", "user", "additionalGids"}))
    for (const Json& each : *groups) user.groups.push_back(id_in("gidMappings", each.get<std::uint32_t>()));
  return user;
}

}  // namespace headgate::oci
