#include "cli/support/device_drivers.hpp"

#include <nlohmann/json.hpp>

#include "base/result.hpp"
#include "runtime/node_facts.hpp"

namespace headgate::cli {
namespace {

std::string words_joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ",") + word;
  return all.empty() ? "-" : all;
}

}  // namespace

int device_drivers_command(const Voice& voice) {
  const auto drivers = oci::device_drivers(runtime::this_node());
  std::string text;
  if (voice.format == Format::json) {
    nlohmann::ordered_json json = {{"schema", "headgate.device_drivers/v1"},
                                   {"drivers", nlohmann::ordered_json::array()}};
    for (const auto& driver : drivers)
      json["drivers"].push_back({{"name", driver.name}, {"capabilities", driver.capabilities}});
    text = json.dump(2) + "\n";
  } else {
    std::vector<std::vector<std::string>> rows = {{"DRIVER", "CAPABILITIES"}};
    for (const auto& driver : drivers) rows.push_back({driver.name, words_joined(driver.capabilities)});
    text = table(rows, voice);
  }
  return print(text) ? 0 : exit_status(ErrorCode::failed);
}

}  // namespace headgate::cli
