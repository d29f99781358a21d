#include "runtime/state.hpp"

#include <limits>
#include <nlohmann/json.hpp>

#include "oci/json_text.hpp"

namespace headgate::runtime {

Result<ContainerState> read_state(std::string_view text) {
  const auto wrong = [](const std::string& what) { return fail(ErrorCode::usage, "the container's state " + what); };
  const auto json = oci::parse_json(text, {.bytes = 1 << 20, .depth = 16});
  if (!json) return wrong(json.error().message);
  if (!json->is_object()) return wrong("is no object");
  ContainerState state;
  for (const auto& [key, out] : {std::pair("id", &state.id), std::pair("bundle", &state.bundle)}) {
    if (!json->contains(key) || !(*json)[key].is_string()) return wrong(std::string("has no text '") + key + "'");
    *out = (*json)[key].get<std::string>();
  }
  if (!state.bundle.starts_with('/')) return wrong("names no bundle");
  const auto pid = json->find("pid");
  if (pid == json->end() || !pid->is_number_unsigned() ||
      pid->get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<pid_t>::max()) || *pid < 2)
    return wrong("has no pid of a process");
  state.pid = pid->get<pid_t>();
  return state;
}

}  // namespace headgate::runtime
