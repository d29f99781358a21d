#include "cli/support/engine_settings.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/split.hpp"
#include "oci/json_text.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kContext = 3;

// Parsed twice: once for limits and duplicate fields, then again to keep the key order.
Result<Json> docker_settings(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return Json::object();
  if (const auto sound = oci::parse_json(text, {.bytes = 1 << 20, .depth = 32}); !sound)
    return fail(ErrorCode::usage, sound.error().message, "put it right first: dockerd does not start with it either");
  Json json = parse_json(text);
  for (const char* part : {"", "/runtimes", "/features"}) {
    const Json::json_pointer at(part);
    if (json.contains(at) && !json[at].is_object())
      return fail(ErrorCode::usage, (*part == '\0' ? std::string("it") : std::string(part + 1)) + " is no object",
                  "put it right first: dockerd does not start with it either");
  }
  return json;
}

std::string text_of_settings(const Json& json, std::string_view like) {
  const int indent = like.contains("\n  \"") ? 2 : like.contains("\n\t\"") ? 1 : 4;
  const char fill = like.contains("\n\t\"") ? '\t' : ' ';
  return json.dump(indent, fill) + "\n";
}

}  // namespace

Result<std::string> with_docker_runtime(std::string_view text, const std::string& program) {
  Json json = TRY(docker_settings(text));
  const Json before = json;
  json["runtimes"][kEngineRuntime]["path"] = program;
  json["features"]["cdi"] = true;
  return json == before ? std::string(text) : text_of_settings(json, text);
}

Result<std::string> without_docker_runtime(std::string_view text) {
  Json json = TRY(docker_settings(text));
  if (!json.contains("runtimes") || json["runtimes"].erase(kEngineRuntime) == 0) return std::string(text);
  if (json["runtimes"].empty()) json.erase("runtimes");
  return json.empty() ? std::string() : text_of_settings(json, text);
}

std::string podman_drop_in(const std::string& program) {
  return "# Made by 'headgate runtime configure --podman'.\n[engine.runtimes]\n" + std::string(kEngineRuntime) +
         " = [\"" + program + "\"]\n";
}

std::string containerd_lines(const std::string& program) {
  const std::string table = R"([plugins."io.containerd.grpc.v1.cri".containerd.runtimes.headgate)";
  return "# /etc/containerd/config.toml, version 2; then restart containerd\n" + table +
         "]\n  runtime_type = \"io.containerd.runc.v2\"\n  pod_annotations = [\"headgate.io/*\"]\n" +
         "  container_annotations = [\"headgate.io/*\"]\n" + table + ".options]\n  BinaryName = \"" + program + "\"\n";
}

std::string crio_lines(const std::string& program) {
  return "# /etc/crio/crio.conf.d/headgate.conf; then restart CRI-O\n[crio.runtime.runtimes.headgate]\nruntime_path = "
         "\"" +
         program + "\"\nallowed_annotations = [\"headgate.io/share\"]\n";
}

std::vector<std::string> line_diff(std::string_view before, std::string_view after) {
  auto from = split(before, '\n'), to = split(after, '\n');
  for (auto* lines : {&from, &to})
    if (lines->back().empty()) lines->pop_back();  // behind the last line feed
  // Changes in settings are short and contiguous: skip the common start and end.
  std::size_t head = 0, tail = 0;
  while (head < std::min(from.size(), to.size()) && from[head] == to[head]) ++head;
  while (tail < std::min(from.size(), to.size()) - head && from[from.size() - 1 - tail] == to[to.size() - 1 - tail])
    ++tail;
  std::vector<std::string> diff;
  const auto put = [&](const char* mark, const auto& lines, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) diff.push_back(mark + lines[i]);
  };
  put("  ", from, head - std::min(head, kContext), head);
  put("- ", from, head, from.size() - tail);
  put("+ ", to, head, to.size() - tail);
  put("  ", from, from.size() - tail, from.size() - tail + std::min(tail, kContext));
  return diff;
}

}  // namespace headgate::cli
