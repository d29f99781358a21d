#include "cli/term/records.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/term/output.hpp"
#include "cli/view/views.hpp"

namespace headgate::cli {
namespace {

using Row = std::vector<std::string>;

// An RFC 4180 reader written from its grammar: rows of unquoted cells.
std::vector<Row> read_csv(const std::string& text) {
  std::vector<Row> rows(1, Row(1));
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') rows.back().back() += text[++i];
    else if (c == '"') quoted = !quoted;
    else if (quoted || (c != ',' && c != '\n')) rows.back().back() += c;
    else if (c == ',') rows.back().emplace_back();
    else rows.emplace_back(1);
  }
  rows.pop_back();  // after the last line feed
  return rows;
}

snapshot::Share share_on(std::vector<std::string> uuids) {
  snapshot::Share share;
  share.name = "train";
  share.state = "ok";
  for (auto& uuid : uuids) {
    snapshot::ShareDevice device;
    device.uuid = std::move(uuid);
    device.memory_limit_bytes = 1ull << 40;
    device.held_ratio = 0.25;
    share.devices.push_back(device);
  }
  return share;
}

const Origin kOrigin{"lab-3", true, 7};

std::string cell(const std::vector<Row>& rows, std::size_t row, const std::string& column) {
  for (std::size_t i = 0; i < rows[0].size(); ++i)
    if (rows[0][i] == column) return rows.at(row).at(i);
  return "no column " + column;
}

TEST(Csv, ALineForEachShareAndGpuWithApiNamesAndUnits) {
  const auto rows =
      read_csv(csv(records_of("", std::vector{share_on({"GPU-a", "GPU-b"}), share_on({})}), kOrigin, true));
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ((Row{rows[0].begin(), rows[0].begin() + 4}), (Row{"taken_unix_ns", "node", "simulated", "name"}));
  EXPECT_EQ((Row{rows[2].begin(), rows[2].begin() + 4}), (Row{"7", "lab-3", "true", "train"}));
  for (const Row& row : rows) EXPECT_EQ(row.size(), rows[0].size());
  EXPECT_EQ(cell(rows, 1, "uuid"), "GPU-a");
  EXPECT_EQ(cell(rows, 2, "uuid"), "GPU-b");
  EXPECT_EQ(cell(rows, 3, "uuid"), "");
  EXPECT_EQ(cell(rows, 1, "memory_limit_bytes"), "1099511627776");
  EXPECT_EQ(cell(rows, 1, "held_ratio"), "0.25");
  EXPECT_EQ(cell(rows, 1, "created"), "false");
  EXPECT_EQ(cell(rows, 1, "ttl_ns"), "") << "what is not known is no number";
  EXPECT_EQ(cell(rows, 1, "last_refusal.pid"), "");
}

TEST(Csv, TheColumnsAreAlwaysTheSame) {
  const auto none = csv(records_of("", std::vector<snapshot::Share>{}), kOrigin, true);
  const auto some = csv(records_of("", std::vector{share_on({"GPU-a"})}), kOrigin, true);
  EXPECT_EQ(none, some.substr(0, some.find('\n') + 1));
  EXPECT_EQ(csv(records_of("", std::vector{share_on({"GPU-a"})}), kOrigin, false), some.substr(none.size()));
}

TEST(Csv, AListOfWordsIsJsonInOneCellAndOneOfObjectsIsLeftOut) {
  snapshot::Gpu gpu;
  gpu.throttle_reasons = {"power", "heat"};
  gpu.xids = {{.xid = 79, .count = 2}};
  const auto rows = read_csv(csv(records_of("", std::vector{gpu}), kOrigin, true));
  EXPECT_EQ(cell(rows, 1, "throttle_reasons"), R"(["power","heat"])");
  for (const char* nested : {"xids", "mig_instances"})
    EXPECT_EQ(std::ranges::find(rows[0], nested), rows[0].end()) << nested;
}

TEST(Csv, ColumnsAreChosenByNameInTheOrderThatIsAsked) {
  const Records records = records_of("", std::vector{share_on({"GPU-a", "GPU-b"})});
  Voice voice{.format = Format::csv};
  voice.columns_of_csv = {"uuid", "name", "node"};
  EXPECT_EQ(*lines(records, kOrigin, voice, true), "uuid,name,node\nGPU-a,train,lab-3\nGPU-b,train,lab-3\n");
  voice.columns_of_csv = {"nme"};
  const Error error = lines(records, kOrigin, voice, true).error();
  EXPECT_EQ(error.message, "--columns: there is no column 'nme'");
  EXPECT_TRUE(error.hint.starts_with("did you mean name? accepted: taken_unix_ns, node, simulated, name, "))
      << error.hint;
  voice.columns_of_csv = {};
  EXPECT_EQ(*lines(records, kOrigin, voice, true), csv(records, kOrigin, true));
}

TEST(Csv, AProgramsNameIsNoFormulaAndCannotDriveTheTerminal) {
  for (const char* formula : {"=1+1", "+1", "-1", "@SUM(A1)"}) EXPECT_EQ(csv_cell(formula), "'" + std::string(formula));
  EXPECT_EQ(csv_cell("=\"a\",b"), "\"'=\"\"a\"\",b\"");
  EXPECT_EQ(csv_cell("a\x1b[2J\r\n"), "a?[2J??");
  EXPECT_EQ(csv_cell("a-b"), "a-b");
  EXPECT_EQ(csv_cell(""), "");
}

RC_GTEST_PROP(CsvProperty, IsReadBackAsTheSameCells, (const std::vector<std::string>& texts)) {
  Row expected = {"first"};
  std::string line = "first";
  for (const std::string& one : texts) {
    line += "," + csv_cell(one);
    expected.push_back(harmless(one));
    if (!one.empty() && std::string_view("=+-@").contains(one[0])) expected.back().insert(0, 1, '\'');
  }
  RC_ASSERT(read_csv(line + "\n") == std::vector<Row>{expected});
}

RC_GTEST_PROP(CsvProperty, KeepsAProcessNameInItsCell, (const std::string& command, const std::string& user)) {
  snapshot::Process process;
  process.command = command;
  process.user = user;
  process.devices.resize(2);
  const auto rows = read_csv(csv(records_of("", std::vector{process}), kOrigin, true));
  RC_ASSERT(rows.size() == 3u);
  for (const Row& row : rows) RC_ASSERT(row.size() == rows[0].size());
}

RC_GTEST_PROP(JsonLines, AreOneObjectEachForAnyName, (const std::string& command)) {
  snapshot::Process process;
  process.command = command;
  process.pid = 12;
  const std::string text = jsonl(records_of("headgate.process/v1", std::vector{process, process}), kOrigin);
  RC_ASSERT(std::ranges::count(text, '\n') == 2);
  const auto object = nlohmann::json::parse(text.substr(0, text.find('\n')));
  RC_ASSERT(object.at("schema") == "headgate.process/v1");
  RC_ASSERT(object.at("node") == "lab-3");
  RC_ASSERT(object.at("simulated") == true);
  RC_ASSERT(object.at("taken_unix_ns") == 7);
  RC_ASSERT(object.at("pid") == 12);
}

TEST(FreeRecords, ReportWhetherItFitsIfAsked) {
  std::vector<Room> rooms(1);
  rooms[0].memory_uncommitted_bytes = 5;
  rooms[0].fits = true;
  auto rows = read_csv(csv(free_records(rooms, Fit{.memory_bytes = 5}), kOrigin, true));
  EXPECT_EQ(cell(rows, 1, "fits"), "true");
  EXPECT_EQ(cell(rows, 1, "memory_uncommitted_bytes"), "5");
  rows = read_csv(csv(free_records(rooms, std::nullopt), kOrigin, true));
  EXPECT_EQ(cell(rows, 1, "fits"), "");
}

}  // namespace
}  // namespace headgate::cli
