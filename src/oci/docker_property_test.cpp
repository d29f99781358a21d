// Properties that hold for all edits and requests.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "oci/docker_devices.hpp"

namespace headgate::oci {
namespace {

std::string some_name() { return *rc::gen::element<std::string>("A", "B", "C", "AB", "PATH"); }
std::string some_path() { return *rc::gen::element<std::string>("/a", "/a/b", "/a/b/c", "/b", "/b/", "/c/d"); }

Edits some_edits() {
  Edits edits;
  for (int i = *rc::gen::inRange(0, 6); i > 0; --i) edits.env.push_back(some_name() + "=" + std::to_string(i));
  for (int i = *rc::gen::inRange(0, 6); i > 0; --i)
    edits.mounts.push_back(
        {.host_path = "/h" + std::to_string(i), .container_path = some_path(), .type = {}, .options = {}});
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) edits.device_nodes.push_back({.path = "/dev" + some_path()});
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i)
    edits.additional_gids.push_back(*rc::gen::inRange<std::uint32_t>(0, 4));
  return edits;
}

ContainerConfig some_config() {
  Json json = {{"unknown", {{"n", *rc::gen::arbitrary<std::int64_t>()}}}};
  for (int i = *rc::gen::inRange(0, 5); i > 0; --i) json["process"]["env"].push_back(some_name() + "=old");
  for (int i = *rc::gen::inRange(0, 5); i > 0; --i)
    json["mounts"].push_back({{"destination", some_path()}, {"kept", i}});
  return *ContainerConfig::read(json.dump());
}

HostNode some_node() { return {.type = 'c', .major = 1, .minor = 2, .mode = 0600}; }

TEST(ConfigEdits, HoldForAllEdits) {
  const bool held = rc::check([] {
    const ContainerConfig before = some_config();
    const Edits edits = some_edits();
    ContainerConfig after = before;
    const auto find = [](const std::string&) -> Result<HostNode> { return some_node(); };
    RC_ASSERT(after.apply(edits, find).has_value());
    RC_ASSERT(after.json()["unknown"] == before.json()["unknown"]);

    std::map<std::string, std::string> wanted;
    for (const std::string& entry : edits.env) wanted[entry.substr(0, entry.find('='))] = entry;
    for (const auto& [name, entry] : wanted) {
      const auto all = after.environment();
      RC_ASSERT(std::ranges::count(all, entry) == 1);
      RC_ASSERT(std::ranges::count_if(all, [&](const auto& each) { return each.starts_with(name + "="); }) == 1);
    }
    for (const std::string& entry : before.environment())
      RC_ASSERT(wanted.contains(entry.substr(0, entry.find('='))) ||
                std::ranges::count(after.environment(), entry) == std::ranges::count(before.environment(), entry));

    std::map<std::string, std::string> places;
    for (const Mount& mount : edits.mounts) places[mount.container_path] = mount.host_path;
    for (const auto& [place, source] : places) RC_ASSERT(*after.source_of(place) == source);
    std::size_t kept = 0;
    if (before.json().contains("mounts"))
      for (const Json& mount : before.json()["mounts"])
        kept += !places.contains(mount["destination"].get<std::string>());
    if (after.json().contains("mounts")) {
      const Json& mounts = after.json()["mounts"];
      RC_ASSERT(mounts.size() == kept + places.size());
      const auto parts = [](const Json& mount) {
        const auto path = std::filesystem::path(mount["destination"].get<std::string>()).lexically_normal();
        return std::ranges::count_if(path, [](const auto& part) { return part != "/" && !part.empty(); });
      };
      if (!places.empty()) RC_ASSERT(std::ranges::is_sorted(mounts, {}, parts));
    }

    // Applying them again only adds rules, and a duplicate rule changes nothing.
    ContainerConfig again = after;
    RC_ASSERT(again.apply(edits, find).has_value());
    Json one = after.json(), two = again.json();
    for (Json* json : {&one, &two})
      if (json->contains("linux")) (*json)["linux"].erase("resources");
    RC_ASSERT(one == two);
  });
  EXPECT_TRUE(held);
}

TEST(ApplyRequests, LeaveTheConfigurationUnchangedOrSayWhy) {
  const bool held = rc::check([] {
    DockerNode node;
    node.cdi = *rc::gen::arbitrary<bool>();
    node.nvidia_cdi_hook = *rc::gen::arbitrary<bool>();
    if (*rc::gen::arbitrary<bool>()) node.nvidia_runtime_hook = "/hook";
    DeviceRequest request;
    request.driver = *rc::gen::element<std::string>("", "nvidia", "nvidia.cdi", "nvidia.runtime-hook", "cdi", "amd");
    request.count = *rc::gen::inRange<std::int64_t>(-2, 4);
    if (*rc::gen::arbitrary<bool>()) request.ids = {"0"};
    if (*rc::gen::arbitrary<bool>()) request.capabilities = {{"gpu", "utility"}};
    const ContainerConfig before = some_config();
    const auto after = apply_requests(before, std::vector<DeviceRequest>{request}, node);
    const bool asks = request.count != 0 || !request.ids.empty();
    if (!after) RC_ASSERT(!after.error().message.empty());
    else if (!asks && request.driver != "amd") RC_ASSERT(after->config == before);
    else if (asks && after->config != before) RC_ASSERT(after->config.json().contains("hooks"));
    // No file has a device, so only the hook can succeed, and only if its program exists.
    if (after && asks) RC_ASSERT(!node.nvidia_runtime_hook.empty());
  });
  EXPECT_TRUE(held);
}

}  // namespace
}  // namespace headgate::oci
