#include "api/page.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

namespace headgate::api {
namespace {

constexpr std::uint64_t kWhen = 1'795'000'000'500'000'000;

std::vector<Family> figures() {
  return {
      {"headgate_gpu_power_watts", "", Kind::gauge, {{{{"uuid", "GPU-9c2f"}}, 298.125}, {{{"uuid", "GPU-77"}}, NAN}}},
      {"headgate_gpu_memory_used_bytes", "", Kind::gauge, {{{{"uuid", "GPU-9c2f"}}, 17179869184.0}}},
      {"headgate_gpu_clock_hertz", "", Kind::gauge, {{{{"uuid", "GPU-9c2f"}, {"domain", "sm"}}, 2.52e9}}},
      {"headgate_node_shares", "", Kind::gauge, {{{}, 3}}}};
}

TEST(MetricLines, AHistogramHasBucketsSumAndCount) {
  const double all = std::numeric_limits<double>::infinity();
  const std::vector<Family> one = {
      {"headgate_share_launch_delay_seconds", "", Kind::histogram, {{{{"share", "a"}}, 0.5, {{1e-05, 7}, {all, 9}}}}}};
  EXPECT_EQ(metric_lines(one, "n", 1, LineForm::influx),
            "headgate_share,node=n,share=a launch_delay_seconds_count=9,launch_delay_seconds_sum=0.5 1\n"
            "headgate_share,node=n,share=a,le=1e-05 launch_delay_seconds_bucket=7 1\n"
            "headgate_share,node=n,share=a,le=+Inf launch_delay_seconds_bucket=9 1\n");
}

TEST(Lines, AGpusFiguresAreFieldsOfOneInfluxLine) {
  EXPECT_EQ(metric_lines(figures(), "lab-3", kWhen, LineForm::influx),
            "headgate_gpu,node=lab-3,uuid=GPU-9c2f power_watts=298.125,memory_used_bytes=17179869184 "
            "1795000000500000000\n"
            "headgate_gpu,node=lab-3,uuid=GPU-9c2f,domain=sm clock_hertz=2.52e+09 1795000000500000000\n"
            "headgate_node,node=lab-3 shares=3 1795000000500000000\n");
}

TEST(Lines, JsonIsOneObjectALine) {
  std::istringstream lines(metric_lines(figures(), "lab-3", kWhen, LineForm::json));
  std::string first;
  std::getline(lines, first);
  const auto document = nlohmann::json::parse(first);
  EXPECT_EQ(document["measurement"], "headgate_gpu");
  EXPECT_EQ(document["unix_ns"], kWhen);
  EXPECT_EQ(document["tags"], (nlohmann::json{{"node", "lab-3"}, {"uuid", "GPU-9c2f"}}));
  EXPECT_EQ(document["fields"], (nlohmann::json{{"power_watts", 298.125}, {"memory_used_bytes", 17179869184.0}}));
}

TEST(Lines, AnEventKeepsItsTimeAndText) {
  const snapshot::Event event{.sequence = 7,
                              .unix_ns = kWhen,
                              .kind = "memory.refused",
                              .severity = "warn",
                              .share = "alice",
                              .pid = 12,
                              .text = "alice asked \"4 GiB\": refused"};
  EXPECT_EQ(event_line(event, "lab-3", LineForm::influx),
            "headgate_event,node=lab-3,kind=memory.refused,severity=warn,share=alice "
            R"(sequence=7i,pid=12i,uid=0i,text="alice asked \"4 GiB\": refused")"
            " 1795000000500000000\n");
  EXPECT_EQ(nlohmann::json::parse(event_line(event, "lab-3", LineForm::json))["fields"]["text"], event.text);
}

// A line is a measurement, tags, fields and a time; a share's name must not be able to change any of them.
TEST(Lines, ForeignNamesForgeNoTagFieldOrLine) {
  static const std::regex line(
      R"(headgate_\w+(,\w+=([^ ,=\\]|\\[ ,=])+)* \w+=([-+0-9.e]+i?|"([^"\\]|\\["\\])*")(,\w+=([-+0-9.e]+i?|"([^"\\]|\\["\\])*"))* \d+\n)");
  for (const std::string name :
       {"a,b=c d", "x\n headgate_gpu power_watts=1 1", "ends in \\", "\xff\xfe", "=", "\t", "\"", "a\\,b", "\\"}) {
    const std::vector<Family> one = {{"headgate_share_processes", "", Kind::gauge, {{{{"share", name}}, 1}}}};
    const std::string metric = metric_lines(one, name, kWhen, LineForm::influx);
    EXPECT_TRUE(std::regex_match(metric, line)) << metric;
    const snapshot::Event event{.kind = "x", .severity = "info", .share = name, .text = name};
    EXPECT_TRUE(std::regex_match(event_line(event, name, LineForm::influx), line))
        << event_line(event, name, LineForm::influx);
    for (const std::string& json :
         {metric_lines(one, name, kWhen, LineForm::json), event_line(event, name, LineForm::json)})
      EXPECT_TRUE(nlohmann::json::accept(json) && json.find('\n') == json.size() - 1) << json;
  }
}

TEST(Lines, OnlyTwoNamesSelectAForm) {
  EXPECT_EQ(line_form("influx"), LineForm::influx);
  EXPECT_EQ(line_form("json"), LineForm::json);
  for (const char* word : {"", "otel", "Influx", "json "}) EXPECT_FALSE(line_form(word)) << word;
}

}  // namespace
}  // namespace headgate::api
