#include "demo/demo_report.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "cli/term/frame.hpp"
#include "cli/top/test_frames.hpp"
#include "cli/top/test_node.hpp"

namespace headgate::demo {

using namespace cli;  // terminal, views, daemon client
namespace {

class DemoPicture : public FrameTest {};

DemoState mid_play() {
  DemoState state{.node = {}, .elapsed_s = 11.9, .total_s = 17, .lines = {}};
  state.node.daemon = true;
  snapshot::Snapshot snapshot = test_picture();
  snapshot.gpus.resize(1);
  snapshot.shares.clear();
  for (const DemoTenant& tenant : demo_cast(17)) {
    snapshot.shares.push_back(test_share(tenant.name, "root", tenant.limit_bytes >> 30, tenant.takes_bytes >> 30,
                                         tenant.compute_percent / 100.0, tenant.ceiling_percent / 100.0,
                                         tenant.role == DemoRole::trainer ? 0.5 : 0));
    state.lines.push_back({tenant.name, tenant.does,
                           demo_story(tenant, {.started = true, .ended = false, .told_after_s = 3.0}, snapshot)});
  }
  std::ranges::sort(snapshot.shares, {}, &snapshot::Share::name);
  std::vector<snapshot::Event> events;
  for (std::uint64_t i = 1; i <= 12; ++i)
    events.push_back({.sequence = i,
                      .unix_ns = kTestTime,
                      .kind = i % 2 == 0 ? "memory.refused" : "process.joined",
                      .severity = "warn",
                      .share = "leaker",
                      .text = "event " + std::to_string(i)});
  state.node = observed(std::move(state.node), std::move(snapshot), std::move(events));
  return state;
}

TEST_F(DemoPicture, EachFrameMatchesItsReference) {
  expect_frame("demo-80x24.txt", render_demo(mid_play(), {80, 24}, kPlain));
  expect_frame("demo-80x24-ascii.txt", render_demo(mid_play(), {80, 24}, kAscii));
  expect_frame("demo-120x40.txt", render_demo(mid_play(), {120, 40}, kPlain));
  expect_frame("demo-smallest.txt", render_demo(mid_play(), kSmallestDemo, kPlain));
}

// Returns the README's first block, which must be a frame as printed by `headgate demo --once`.
std::vector<std::string> readme_frame() {
  std::ifstream in(HEADGATE_README);
  std::vector<std::string> lines;
  std::string line;
  while (std::getline(in, line) && line != "```text") {
  }
  while (std::getline(in, line) && line != "```") lines.push_back(line);
  return lines;
}

TEST_F(DemoPicture, TheReadmesFrameHasTheCurrentShape) {
  const auto shown = readme_frame();
  const auto today = lines_of(render_demo(mid_play(), {80, 24}, kPlain));
  ASSERT_EQ(shown.size(), today.size());
  EXPECT_NE(shown.front().find("  SIMULATED  "), std::string::npos) << shown.front();
  for (std::size_t i = 0; i < shown.size(); ++i) {
    EXPECT_LE(cells(shown[i]), 80u) << shown[i];
    EXPECT_EQ(shown[i].empty(), today[i].empty()) << i;
    // Compares both headings and each row's name; in the second table also what the tenant does.
    if (today[i].starts_with(" SHARE ") || today[i].starts_with(" TENANT ")) {
      EXPECT_EQ(shown[i], today[i]);
    }
    if (i >= 5 && i < 11) {
      EXPECT_EQ(shown[i].substr(1, 11), today[i].substr(1, 11));
    }
    if (i >= 13 && i < 19) {
      const std::string told = today[i].substr(0, 43);  // without the last column, which changes all the time
      EXPECT_TRUE(shown[i].starts_with(told.substr(0, told.find_last_not_of(' ') + 1))) << shown[i];
    }
  }
  EXPECT_TRUE(shown.back().starts_with(" headgate demo   ") && shown.back().ends_with(" s of 17 s   Ctrl-C ends it"))
      << shown.back();
}

TEST_F(DemoPicture, NoFrameExceedsItsTerminalAndEachShowsSimulated) {
  for (unsigned columns = kSmallestDemo.columns; columns < 180; columns += 7) {
    for (unsigned rows = kSmallestDemo.rows; rows < 60; rows += 3) {
      DemoState state = mid_play();
      state.node.events.back().text = std::string(400, 'x');
      state.lines[2].headgate = std::string(400, 'y');
      const std::string frame = render_demo(state, {columns, rows}, kAscii);
      const auto lines = lines_of(frame);
      EXPECT_EQ(lines.size(), rows);
      for (const std::string& line : lines) EXPECT_LE(cells(line), columns) << line;
      EXPECT_NE(frame.find("SIMULATED"), std::string::npos);
      for (const DemoLine& line : state.lines) EXPECT_NE(frame.find(line.does), std::string::npos) << line.does;
    }
  }
  EXPECT_NE(render_demo({}, {80, 24}, kAscii).find("SIMULATED"), std::string::npos);
}

TEST_F(DemoPicture, TheVerdictFits80ColumnsAndNamesBrokenPromises) {
  const std::string text = render_verdicts({{"trainer", "50 %, 48.0 GiB", "52.30 %, 40.0 GiB at most", false},
                                            {"leaker", "never over 8.0 GiB", "refused at 7.0 GiB", true}},
                                           12.3);
  EXPECT_EQ(text.find("SIMULATED"), 0u);
  EXPECT_NE(text.find("52.30 %, 40.0 GiB at most                  NO\n"), std::string::npos) << text;
  EXPECT_NE(text.find("A promise was not kept"), std::string::npos);
  for (const std::string& line : lines_of(text)) EXPECT_LE(cells(line), 80u) << line;
  const std::string good = render_verdicts({{"leaker", "never over 8.0 GiB", "refused at 7.0 GiB", true}}, 12.3);
  EXPECT_NE(good.find("Every promise was kept"), std::string::npos);
  for (const std::string& line : lines_of(good)) EXPECT_LE(cells(line), 80u) << line;
}

}  // namespace
}  // namespace headgate::demo
