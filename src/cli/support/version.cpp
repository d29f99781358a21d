// `headgate version`.
#include "base/version.hpp"

#include <nlohmann/json.hpp>

#include "cli/commands.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

Result<int> version(const Call& call) {
  if (call.voice.format != Format::json) return show("headgate " + version_text() + "\n");
  return show(pretty_json({{"schema", "headgate.version/v1"},
                           {"version", kVersion.number},
                           {"commit", kVersion.commit.empty() ? Json() : Json(kVersion.commit)},
                           {"modified", kVersion.modified}}));
}

}  // namespace

Commands version_commands() {
  return {plain_command(kPlumbing, "version", "print headgate's version", version, Reads::nothing)};
}

}  // namespace headgate::cli
