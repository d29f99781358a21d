// Machine-readable output formats of the built command on the simulated node.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli_program.hpp"

namespace headgate::e2e {
namespace {

using nlohmann::json;

// Runs LINE while one program of a share uses the GPU.
std::string held(const std::string& line) {
  return "$H run --sim --name held --mem 1GiB --compute 25% -- ${SIM%/sim}/headgate-load --mem=64MiB --duration=60s "
         "--no-launches --no-idle-list > $D/load & run=$!; n=0; until $H ps --sim --json 2>/dev/null | grep -q "
         "'\"pid\": [1-9]' || [ $n = 600 ]; do sleep 0.05; n=$((n+1)); done; " +
         line + "; status=$?; kill -TERM $run; wait $run; exit $status";
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string first_cell_of(const std::string& csv, const std::string& column) {
  const auto cells = [](const std::string& line) {
    std::vector<std::string> all(1);
    for (const char c : line) c == ',' ? all.emplace_back() : all.back() += c;
    return all;
  };
  const auto lines = lines_of(csv);
  if (lines.size() < 2) return "no line";
  const auto names = cells(lines[0]), values = cells(lines[1]);
  const auto at = std::ranges::find(names, column);
  return at == names.end() ? "no column" : values.at(static_cast<std::size_t>(at - names.begin()));
}

TEST(CliForms, EveryJsonlLineHasSchemaNodeAndSimulation) {
  const Cli cli;
  const Said said = cli.shell(held("for w in status ps free events 'gpu ls'; do $H $w --sim -o jsonl; done"));
  EXPECT_EQ(said.status, 0) << said.err;
  std::vector<std::string> schemas;
  for (const auto& line : lines_of(said.out)) {
    const json one = json::parse(line);
    EXPECT_EQ(one.at("simulated"), true) << line;
    EXPECT_TRUE(one.contains("node")) << line;
    if (schemas.empty() || schemas.back() != one.at("schema").get<std::string>()) schemas.push_back(one.at("schema"));
  }
  EXPECT_EQ(schemas, (std::vector<std::string>{"headgate.gpu/v1", "headgate.share/v1", "headgate.process/v1",
                                               "headgate.room/v1", "headgate.gpu/v1"}))
      << said.out;
}

TEST(CliForms, CsvHasTheNamesOfTheApiAndBaseUnits) {
  const Cli cli;
  const Said said =
      cli.shell(held("$H status --sim -o csv > $D/s; $H ps --sim -o csv > $D/p; $H gpu ls --sim -o csv > "
                     "$D/g; $H free --sim --fit 1GiB -o csv > $D/f"));
  EXPECT_EQ(said.status, 0) << said.err;
  const std::string status = cli.shell("cat $D/s").out;
  EXPECT_TRUE(status.starts_with("taken_unix_ns,node,simulated,name,owner_uid,")) << status;
  EXPECT_EQ(first_cell_of(status, "name"), "held");
  EXPECT_EQ(first_cell_of(status, "memory_limit_bytes"), "1073741824");
  EXPECT_EQ(first_cell_of(status, "compute_ceiling_ratio"), "0.25");
  EXPECT_EQ(first_cell_of(cli.shell("cat $D/p").out, "share"), "held");
  EXPECT_EQ(first_cell_of(cli.shell("cat $D/g").out, "simulated"), "true");
  EXPECT_EQ(first_cell_of(cli.shell("cat $D/f").out, "fits"), "true");
}

TEST(CliForms, WideShowsTheUuidAndThePids) {
  const Cli cli;
  const Said said = cli.shell(held("$H status --sim -o wide"));
  EXPECT_NE(said.out.find("  GPU-"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("  pids "), std::string::npos) << said.out;
}

TEST(CliForms, AnUnsupportedFormIsRefusedWithTheSupportedOnes) {
  const Cli cli;
  const Said said = cli.shell("$H doctor -o csv");
  EXPECT_EQ(said.status, 2);
  EXPECT_EQ(said.out, "");
  EXPECT_EQ(said.err, "headgate: doctor: output format 'csv' is not supported\n          accepted: table or json\n");
}

}  // namespace
}  // namespace headgate::e2e
