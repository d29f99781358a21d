#include "oci/container_config.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/joined.hpp"
#include "base/utf8.hpp"

namespace headgate::oci {
namespace {

// Some engines' annotations hold whole documents as text, so the nesting stays shallow.
constexpr JsonBounds kConfigBounds = {.bytes = 4 << 20, .depth = 64};

using Path = ContainerConfig::Path;

const Json* find(const Json& json, const Path& path) {
  const Json* at = &json;
  for (const char* key : path) {
    if (!at->is_object()) return nullptr;
    const auto next = at->find(key);
    if (next == at->end() || next->is_null()) return nullptr;
    at = &*next;
  }
  return at;
}

// The same, but creates missing objects.
Json& make(Json& json, const Path& path, Json::value_t type) {
  Json* at = &json;
  for (const char* key : path) {
    if (at->is_null()) *at = Json::object();
    at = &(*at)[key];
  }
  if (at->is_null()) *at = Json(type);
  return *at;
}

// Finds the first part with a type that violates the specification.
class TypeCheck {
 public:
  explicit TypeCheck(const Json& json) : json_(json) {}

  using Is = bool (Json::*)() const noexcept;
  void one(const Path& path, Is is, const char* what) {
    if (const Json* at = find(json_, path); at != nullptr && !(at->*is)()) complain(name(path), what);
  }
  void object(const Path& path) { one(path, &Json::is_object, "is no object"); }
  // Checks a list of values, and the fields of those that are objects.
  void list(const Path& path, Is is, const char* what, const std::vector<const char*>& texts = {}) {
    const Json* all = find(json_, path);
    if (all == nullptr) return;
    if (!all->is_array()) return complain(name(path), "is no list");
    for (std::size_t i = 0; i < all->size(); ++i) {
      const Json& each = (*all)[i];
      const std::string at = name(path) + "[" + std::to_string(i) + "]";
      if (!(each.*is)()) complain(at, what);
      for (const char* text : texts)
        if (each.is_object() && (!each.contains(text) || !each[text].is_string())) complain(at, no_text(text));
    }
  }
  void texts_of(const Path& path) {
    object(path);
    const Json* all = find(json_, path);
    if (all == nullptr || !all->is_object()) return;
    for (const auto& [key, value] : all->items())
      if (!value.is_string()) complain(name(path) + "." + printable(key, 80), "is no text");
  }
  [[nodiscard]] const std::string& wrong() const { return wrong_; }

 private:
  static std::string name(const Path& path) { return joined(path, "."); }
  static std::string no_text(const char* key) { return std::string("has no text '") + key + "'"; }
  void complain(const std::string& at, const std::string& what) {
    if (wrong_.empty()) wrong_ = at + ": " + what;
  }

  const Json& json_;
  std::string wrong_;
};

std::string type_trouble(const Json& json) {
  TypeCheck check(json);
  for (const Path& path : std::vector<Path>{{"process"}, {"process", "user"}, {"hooks"}, {"linux"}, {"root"}})
    check.object(path);
  check.object({"linux", "resources"});
  check.object({"linux", "netDevices"});
  check.list({"process", "env"}, &Json::is_string, "is no text");
  check.list({"process", "args"}, &Json::is_string, "is no text");
  check.list({"process", "user", "additionalGids"}, &Json::is_number_unsigned, "is no group");
  check.one({"process", "user", "uid"}, &Json::is_number_unsigned, "is no user");
  check.one({"process", "user", "gid"}, &Json::is_number_unsigned, "is no group");
  check.list({"mounts"}, &Json::is_object, "is no object", {"destination"});
  check.list({"linux", "devices"}, &Json::is_object, "is no object", {"path"});
  check.list({"linux", "namespaces"}, &Json::is_object, "is no object", {"type"});
  check.list({"linux", "resources", "devices"}, &Json::is_object, "is no object");
  for (const char* hook : kHookNames) check.list({"hooks", hook}, &Json::is_object, "is no object", {"path"});
  check.texts_of({"annotations"});
  check.one({"root", "path"}, &Json::is_string, "is no text");
  return check.wrong();
}

std::string_view name_of(std::string_view entry) { return entry.substr(0, entry.find('=')); }

// Returns the number of path components: 1 for "/proc", 2 for "/proc/sys/".
std::ptrdiff_t depth_of(const Json& mount) {
  const auto& text = mount["destination"].get_ref<const std::string&>();
  std::string_view clean = text;
  std::string normal;
  if (text.contains("//") || text.contains("/.")) clean = normal = std::filesystem::path(text).lexically_normal();
  if (clean.size() > 1 && clean.ends_with('/')) clean.remove_suffix(1);
  return std::ranges::count(clean, '/');
}

Json without_name(const nlohmann::ordered_json& hook) {
  Json json = Json::parse(hook.dump(-1, ' ', false, Json::error_handler_t::replace));
  json.erase("hookName");
  return json;
}

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

ContainerConfig::ContainerConfig(Json json) : json_(std::make_unique<Json>(std::move(json))) {}
ContainerConfig::ContainerConfig(const ContainerConfig& other) : json_(std::make_unique<Json>(*other.json_)) {}
ContainerConfig::ContainerConfig(ContainerConfig&& other) noexcept = default;
ContainerConfig& ContainerConfig::operator=(ContainerConfig other) noexcept {
  json_.swap(other.json_);
  return *this;
}
ContainerConfig::~ContainerConfig() = default;

bool operator==(const ContainerConfig& one, const ContainerConfig& other) { return *one.json_ == *other.json_; }

Result<ContainerConfig> ContainerConfig::read(std::string_view text) {
  auto json = parse_json(text, kConfigBounds);
  if (!json) return fail(ErrorCode::usage, "config.json " + json.error().message);
  if (!json->is_object()) return fail(ErrorCode::usage, "config.json is no object");
  if (const std::string wrong = type_trouble(*json); !wrong.empty())
    return fail(ErrorCode::usage, "config.json: " + wrong);
  return ContainerConfig(std::move(*json));
}

const Json* ContainerConfig::at(const Path& path) const { return find(*json_, path); }

std::string ContainerConfig::text() const { return json_->dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

std::vector<std::string> ContainerConfig::environment() const {
  const Json* env = at({"process", "env"});
  return env == nullptr ? std::vector<std::string>() : env->get<std::vector<std::string>>();
}

std::optional<std::string> ContainerConfig::variable(std::string_view name) const {
  std::optional<std::string> found;
  for (const std::string& entry : environment())
    if (name_of(entry) == name && entry.size() > name.size()) found = entry.substr(name.size() + 1);
  return found;
}

std::optional<std::string> ContainerConfig::annotation(const std::string& name) const {
  const Json* found = at({"annotations", name.c_str()});
  return found == nullptr ? std::nullopt : std::optional(found->get<std::string>());
}

std::string ContainerConfig::root() const {
  const Json* path = at({"root", "path"});
  return path == nullptr ? std::string() : path->get<std::string>();
}

std::optional<std::string> ContainerConfig::source_of(std::string_view destination) const {
  if (const Json* all = at({"mounts"}))
    for (const Json& each : *all)
      if (each["destination"] == destination)
        return each.contains("source") && each["source"].is_string() ? each["source"].get<std::string>()
                                                                     : std::string();
  return std::nullopt;
}

void ContainerConfig::set_source(std::string_view destination, const std::string& source) {
  if (at({"mounts"}) == nullptr) return;
  auto& mounts = (*json_)["mounts"].get_ref<Json::array_t&>();
  if (source.empty()) std::erase_if(mounts, [&](const Json& each) { return each["destination"] == destination; });
  for (Json& each : mounts)
    if (each["destination"] == destination) each["source"] = source;
}

void ContainerConfig::append_variable(std::string_view name, std::string_view value) {
  make(*json_, {"process", "env"}, Json::value_t::array).push_back(std::string(name) + "=" + std::string(value));
}

void ContainerConfig::remove_variable(std::string_view name) {
  if (at({"process", "env"}) == nullptr) return;
  std::erase_if((*json_)["process"]["env"].get_ref<Json::array_t&>(),
                [&](const Json& entry) { return name_of(entry.get_ref<const std::string&>()) == name; });
}

// Replaces in place, so that the order of the others is kept.
void ContainerConfig::set_variable(const std::string& entry) {
  Json& env = make(*json_, {"process", "env"}, Json::value_t::array);
  const auto same = [&](const Json& each) { return name_of(each.get_ref<const std::string&>()) == name_of(entry); };
  auto& entries = env.get_ref<Json::array_t&>();
  const auto first = std::ranges::find_if(entries, same);
  if (first == entries.end()) return entries.push_back(entry);
  *first = entry;
  entries.erase(std::remove_if(first + 1, entries.end(), same), entries.end());
}

void ContainerConfig::append_hook(const std::string& name, Json hook) {
  make(*json_, {"hooks", name.c_str()}, Json::value_t::array).push_back(std::move(hook));
}

void ContainerConfig::remove_hooks(const std::function<bool(const std::string& path)>& is) {
  for (const char* name : kHookNames)
    if (at({"hooks", name}) != nullptr)
      std::erase_if((*json_)["hooks"][name].get_ref<Json::array_t&>(),
                    [&](const Json& hook) { return is(hook["path"].get<std::string>()); });
}

bool ContainerConfig::has_hook(const std::function<bool(const std::string& path)>& is) const {
  return std::ranges::any_of(kHookNames, [&](const char* name) {
    const Json* all = at({"hooks", name});
    return all != nullptr &&
           std::ranges::any_of(*all, [&](const Json& hook) { return is(hook["path"].get<std::string>()); });
  });
}

Result<void> ContainerConfig::add_node(DeviceNode node, const FindHostNode& look) {
  const std::string host_path = node.host_path.empty() ? node.path : node.host_path;
  if (node.type.empty() || (node.type != "p" && node.major.value_or(0) == 0)) {
    const HostNode host = TRY(look(host_path));
    if (!node.type.empty() && node.type != std::string(1, host.type))
      return fail(ErrorCode::usage,
                  host_path + " is a node of type " + host.type + ", and a CDI file calls it " + node.type);
    node.type = host.type;
    node.major = host.major, node.minor = host.minor;
    if (!node.file_mode) node.file_mode = host.mode;
  }
  Json device = {{"path", node.path}, {"type", node.type}};
  const bool numbered = node.type != "p";
  if (numbered) device["major"] = node.major.value_or(0), device["minor"] = node.minor.value_or(0);
  if (node.file_mode) device["fileMode"] = *node.file_mode;
  for (const auto& [key, own] : {std::pair("uid", node.uid), std::pair("gid", node.gid)}) {
    const Json* user = at({"process", "user", key});
    const std::uint64_t id = own ? *own : user == nullptr ? 0 : user->get<std::uint64_t>();
    if (own || id != 0) device[key] = id;
  }
  auto& devices = make(*json_, {"linux", "devices"}, Json::value_t::array).get_ref<Json::array_t&>();
  std::erase_if(devices, [&](const Json& each) { return each["path"] == node.path; });
  devices.push_back(device);
  if (node.type == "b" || node.type == "c") {
    const std::string access = node.permissions.empty() ? "rwm" : node.permissions == "none" ? "" : node.permissions;
    make(*json_, {"linux", "resources", "devices"}, Json::value_t::array)
        .push_back({{"allow", true},
                    {"type", node.type},
                    {"major", device["major"]},
                    {"minor", device["minor"]},
                    {"access", access}});
  }
  return {};
}

void ContainerConfig::add_mount(const Mount& mount) {
  auto& mounts = make(*json_, {"mounts"}, Json::value_t::array).get_ref<Json::array_t&>();
  std::erase_if(mounts, [&](const Json& each) { return each["destination"] == mount.container_path; });
  std::vector<std::string> options = mount.options;
  const auto has = [&](const char* option) { return std::ranges::find(options, option) != options.end(); };
  const Json* namespaces = at({"linux", "namespaces"});
  const bool has_users = namespaces != nullptr &&
                         std::ranges::any_of(*namespaces, [](const Json& each) { return each["type"] == "user"; });
  const bool binds = mount.type == "bind" || has("bind") || has("rbind");
  if (has_users && binds && !has("idmap") && !has("ridmap")) options.emplace_back("idmap");
  Json added = {{"destination", mount.container_path}, {"source", mount.host_path}};
  if (!mount.type.empty()) added["type"] = mount.type;
  if (!options.empty()) added["options"] = options;
  mounts.push_back(std::move(added));
}

Result<void> ContainerConfig::apply(const Edits& edits, const FindHostNode& look) {
  for (const std::string& entry : edits.env) set_variable(entry);
  for (const DeviceNode& node : edits.device_nodes) TRY(add_node(node, look));
  for (const NetDevice& device : edits.net_devices)
    make(*json_, {"linux", "netDevices"}, Json::value_t::object)[device.host_interface] = {{"name", device.name}};
  for (const Mount& mount : edits.mounts) add_mount(mount);
  if (!edits.mounts.empty()) std::ranges::stable_sort((*json_)["mounts"].get_ref<Json::array_t&>(), {}, depth_of);
  for (const Hook& hook : edits.hooks) append_hook(hook.name, without_name(to_json(hook)));
  if (edits.intel_rdt) make(*json_, {"linux"}, Json::value_t::object)["intelRdt"] = Json(to_json(*edits.intel_rdt));
  for (const std::uint32_t gid : edits.additional_gids) {
    if (gid == 0) continue;
    Json& gids = make(*json_, {"process", "user", "additionalGids"}, Json::value_t::array);
    if (std::ranges::find(gids, Json(gid)) == gids.end()) gids.push_back(gid);
  }
  return {};
}

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
