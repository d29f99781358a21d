#include "cli/top/picture.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <vector>

#include "cli/term/frame.hpp"
#include "cli/top/state.hpp"
#include "cli/top/test_frames.hpp"
#include "cli/top/test_node.hpp"

namespace headgate::cli {
namespace {

constexpr FrameStyle kColour{.colour = true, .ascii = false};

class TopPicture : public FrameTest {};

// Removes the colours that render() adds; any other control sequence is left for the test to find.
std::string without_colours(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "\x1b[") != 0) {
      plain += text[i];
      continue;
    }
    const std::size_t end = text.find_first_not_of("0123456789;", i + 2);
    if (end == std::string::npos || text[end] != 'm') return "a sequence that is no colour";
    i = end;
  }
  return plain;
}

TEST_F(TopPicture, EachFrameMatchesItsReference) {
  TopState state = test_state();
  expect_frame("80x24.txt", render(state, {80, 24}, kPlain));
  expect_frame("80x24-ascii.txt", render(state, {80, 24}, kAscii));
  expect_frame("80x24-colour.txt", render(state, {80, 24}, kColour));
  expect_frame("120x40.txt", render(state, {120, 40}, kPlain));
  expect_frame("160x30.txt", render(state, {160, 30}, kPlain));
  expect_frame("60x12.txt", render(state, {60, 12}, kPlain));
  expect_frame("40x5-too-small.txt", render(state, {40, 5}, kPlain));
  for (const auto view : {TopView::gpu, TopView::user, TopView::process}) {
    state.view = view;
    expect_frame("80x24-by-" + view_word(view) + ".txt", render(state, {80, 24}, kAscii));
  }
  for (const char* keys : {"4 ", "k"}) {
    for (const char key : std::string(keys)) state = apply(std::move(state), {KeyKind::text, std::string(1, key)});
  }
  expect_frame("80x24-signal.txt", render(state, {80, 24}, kAscii));
  state = test_state();
  state.preset = TopPreset::table;
  expect_frame("80x24-table-alone.txt", render(state, {80, 24}, kAscii));
  state.preset = TopPreset::gpus;
  expect_frame("80x24-gpus-and-events.txt", render(state, {80, 24}, kAscii));
  state = test_state();
  state.tree = true;
  expect_frame("80x24-tree.txt", render(state, {80, 24}, kAscii));
  state.selected = history_key("train", test_gpu(0).uuid);
  state.mode = TopMode::details;
  expect_frame("80x24-details.txt", render(state, {80, 24}, kPlain));
  for (const auto& [view, key] :
       {std::pair{TopView::process, "process//50977/50977/ffmpeg"}, std::pair{TopView::gpu, "gpu/GPU-0c2f0000-1111"}}) {
    state.view = view;
    state.selected = key;
    expect_frame("80x24-details-of-" + view_word(view) + ".txt", render(state, {80, 24}, kPlain));
  }
  state.mode = TopMode::help;
  expect_frame("80x24-help.txt", render(state, {80, 24}, kAscii));
  expect_frame("80x24-first.txt", render(TopState{}, {80, 24}, kAscii));
  TopState frozen = test_state();
  frozen.tree = true;
  frozen.mode = TopMode::details;
  frozen.now->processes[1].freeze = frozen.now->processes[3].freeze =
      snapshot::Freeze{"/headgate-frozen-50977", "echo 0 > /sys/fs/cgroup/headgate-frozen-50977/cgroup.freeze"};
  frozen.view = TopView::process;
  frozen.selected = "process//50977/50977/ffmpeg";
  expect_frame("80x24-details-of-frozen.txt", render(frozen, {80, 24}, kPlain));
  frozen.mode = TopMode::table;
  expect_frame("80x24-frozen-by-process.txt", render(frozen, {80, 24}, kAscii));
  frozen.view = TopView::share;
  expect_frame("80x24-frozen-tree.txt", render(frozen, {80, 24}, kAscii));
}

TEST_F(TopPicture, NoFrameExceedsTheTerminalInAnyView) {
  // Both sides of each width at which the layout changes; all widths would take half a minute.
  std::vector<unsigned> widths = {1, 2, 20, kSmallestTop.columns - 1, kSmallestTop.columns, 80, 109, 110, 200};
  if (std::getenv("HEADGATE_TEST_LONG") != nullptr) {
    widths.resize(200);
    std::iota(widths.begin(), widths.end(), 1);
  }
  for (const auto mode :
       {TopMode::table, TopMode::details, TopMode::help, TopMode::filter, TopMode::limits, TopMode::signal}) {
    for (const auto preset : {TopPreset::all, TopPreset::table, TopPreset::gpus})
      for (const auto view : {TopView::share, TopView::gpu, TopView::user, TopView::process}) {
        if (preset != TopPreset::all && view != TopView::share) continue;
        for (const unsigned columns : widths) {
          for (const unsigned rows : {1u, 2u, kSmallestTop.rows - 1, kSmallestTop.rows, 20u, 22u, 30u, 40u, 60u}) {
            TopState state = test_state();
            state.mode = mode;
            state.view = view;
            state.preset = preset;
            state.tree = true;
            state.typed = std::string(150, 'x');
            state.limits_for = std::string(150, 'y');
            state.signal_for.to.assign(5, {1, std::string(50, 'z'), "u", 0});
            const auto lines = lines_of(without_colours(render(state, {columns, rows}, kColour)));
            ASSERT_LE(lines.size(), rows) << columns << "x" << rows;
            for (const auto& line : lines) ASSERT_LE(cells(line), columns) << columns << "x" << rows << "\n" << line;
          }
        }
      }
  }
}

TEST_F(TopPicture, HostileNamesDriveNoTerminalAndBreakNoColumn) {
  const std::string hostile =
      "\x1b[2J\x1b]0;x\x07\r\n\xc2\x9b"
      "31m\xe2\x80\xae\xff\xe4\xb8\x96\xe7\x95\x8c";
  TopState state = test_state();
  auto& picture = *state.now;
  picture.node.name = picture.gpus[0].model = hostile;
  picture.node.level = picture.node.driver_version = hostile;
  picture.gpus[0].throttle_reasons = {hostile};
  picture.shares[1].name = picture.shares[1].owner = picture.shares[1].state = hostile;
  picture.shares[1].level = picture.shares[1].problem = hostile;
  for (auto& process : picture.processes) {
    process.share = hostile;
    process.command = process.user = process.where = process.finding = hostile;
  }
  state.events.back().text = state.filter = state.user = state.typed = state.said = state.trouble = state.limits_for =
      hostile;
  state.signal_for.to = {{1, hostile, hostile, 0}};
  for (const auto mode : {TopMode::table, TopMode::details, TopMode::filter, TopMode::limits, TopMode::signal}) {
    for (const auto view : {TopView::share, TopView::gpu, TopView::user, TopView::process}) {
      state.mode = mode;
      state.view = view;
      state.user.clear();
      for (const bool filtered : {false, true}) {
        state.filter = filtered ? hostile : "";
        for (const FrameStyle style : {kPlain, kAscii, kColour}) {
          const std::string text = without_colours(render(state, {100, 30}, style));
          for (const auto& line : lines_of(text)) {
            EXPECT_EQ(line, harmless(line));
            EXPECT_LE(cells(line), 100u);
          }
          if (style.ascii) {
            EXPECT_TRUE(std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }));
          }
        }
      }
    }
  }
}

TEST_F(TopPicture, EverySizeSaysAWeakLevelAndThatItIsSimulated) {
  for (const auto mode : {TopMode::table, TopMode::details, TopMode::help, TopMode::filter}) {
    for (const FrameSize size : {FrameSize{60, 12}, FrameSize{80, 24}, FrameSize{200, 50}, FrameSize{30, 8}}) {
      TopState state = test_state();
      state.mode = mode;
      const std::string well = render(state, size, kAscii);
      EXPECT_FALSE(well.substr(0, well.find('\n')).contains("level")) << well;
      state.now->node.level = "observe";
      const std::string text = render(state, size, kAscii);
      EXPECT_NE(text.find("SIMULATED"), std::string::npos) << text;
      EXPECT_NE(text.find("level observe"), std::string::npos) << text;
    }
  }
  TopState real = test_state();
  real.now->node.simulated = false;
  EXPECT_EQ(render(real, {80, 24}, kAscii).find("SIMULATED"), std::string::npos);
}

TEST_F(TopPicture, ATooSmallTerminalGetsAMessageInWholeWords) {
  const std::string text = render(test_state(), {20, 8}, kAscii);
  std::istringstream lines(text);
  std::string whole;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 20u) << text;
    whole += (whole.empty() ? "" : " ") + line;
  }
  EXPECT_NE(whole.find("headgate top needs "), std::string::npos) << text;
  EXPECT_NE(whole.find(" columns and "), std::string::npos) << text;
}

// The header and the column must count refusals alike.
TEST_F(TopPicture, RefusalsAreCountedNotShares) {
  TopState state = test_state();
  state.now->shares.erase(state.now->shares.begin() + 1, state.now->shares.end());
  state.now->shares[0].devices[0].refusals = 7;
  EXPECT_NE(render(state, {120, 24}, kAscii).find("7 refused"), std::string::npos) << render(state, {120, 24}, kAscii);
}

TEST_F(TopPicture, ColoursAppearOnlyIfWanted) {
  EXPECT_EQ(render(test_state(), {80, 24}, kPlain).find('\x1b'), std::string::npos);
  EXPECT_NE(render(test_state(), {80, 24}, kColour).find("\x1b[30;43mSIMULATED"), std::string::npos);
}

TEST_F(TopPicture, TheSelectedRowIsVisibleInALongTable) {
  TopState state = test_state();
  for (int i = 0; i < 200; ++i)
    state.now->shares.push_back(test_share("many-" + std::to_string(1000 + i), "dora", 1, 0, 0, 1, 0));
  for (const char* name : {"many-1000", "many-1100", "many-1199", "train"}) {
    state.selected = history_key(name, test_gpu(0).uuid);
    EXPECT_NE(render(state, {80, 24}, kAscii).find(std::string("\n>") + name), std::string::npos) << name;
  }
}

TEST_F(TopPicture, ManyGpusLeaveRoomForSharesAndCountTheHidden) {
  TopState state = test_state();
  for (std::uint32_t i = 2; i < 16; ++i) state.now->gpus.push_back(test_gpu(i));
  const std::string text = render(state, {80, 24}, kAscii);
  EXPECT_NE(text.find(" and "), std::string::npos);
  EXPECT_NE(text.find("more GPUs"), std::string::npos);
  EXPECT_NE(text.find("train"), std::string::npos);
}

TEST_F(TopPicture, EightGpusFitASmallTerminal) {
  TopState state = test_state();
  for (std::uint32_t i = 2; i < 8; ++i) state.now->gpus.push_back(test_gpu(i));
  const std::string text = render(state, {80, 24}, kAscii);
  EXPECT_NE(text.find("\n 7 H200"), std::string::npos) << text;
  EXPECT_NE(text.find("\n>notebook"), std::string::npos) << text;
}

TEST_F(TopPicture, LongNamesWithDifferentEndsStayDistinct) {
  TopState state = test_state();
  for (int i = 0; i < 2; ++i)
    state.now->shares.push_back(test_share("a-very-long-name-of-a-model-" + std::to_string(i), "dora", 1, 0, 0, 1, 0));
  const std::string text = render(state, {80, 24}, kAscii);
  EXPECT_NE(text.find("a-very-long-~del-0"), std::string::npos) << text;
  EXPECT_NE(text.find("a-very-long-~del-1"), std::string::npos) << text;
}

TEST_F(TopPicture, AFigureOfMemoryIsNeverCut) {
  const auto text = [](std::uint64_t used, std::optional<std::uint64_t> limit) { return used_of_text(used, limit); };
  constexpr std::uint64_t kTenth = kTestGiB / 10;
  EXPECT_EQ(text(32 * kTestGiB, 141 * kTestGiB), "32.0/141.0G");
  EXPECT_EQ(text(100 * kTestGiB + 5 * kTenth, 141 * kTestGiB), "100.5/141G");
  EXPECT_EQ(text(177 * kTestGiB + 6 * kTenth, 612 * kTestGiB + 4 * kTenth), "177/612G");
  EXPECT_EQ(text(1020ull << 20, 141 * kTestGiB), "1020M/141G");
}

// Showing a limit next to usage that no limit covers would promise something that is not enforced.
TEST_F(TopPicture, AUserOfOutsideProgramsHasNoLimit) {
  TopState state = test_state();
  state.view = TopView::user;
  EXPECT_EQ(rows_of(state)[0].limit_bytes, 16 * kTestGiB);
  state.now->processes[3].user = "alice";
  EXPECT_EQ(rows_of(state)[0].name, "alice");
  EXPECT_EQ(rows_of(state)[0].used_bytes, 17 * kTestGiB);
  EXPECT_EQ(rows_of(state)[0].limit_bytes, std::nullopt);
}

TEST_F(TopPicture, WaitingRequestsAreCountedInTheHeader) {
  TopState state = test_state();
  state.now->waiting.resize(2);
  EXPECT_NE(render(state, {120, 24}, kAscii).find(", 2 in line"), std::string::npos);
}

// The text cut off at the right would be the limit that was hit.
TEST_F(TopPicture, DetailsAreNeverCut) {
  TopState state = test_state();
  state.mode = TopMode::details;
  state.selected = history_key("train", test_gpu(0).uuid);
  state.now->processes[1].finding = state.now->processes[3].finding;
  const auto told = [&state](const std::string& words) {
    std::string text;
    for (const auto& line : lines_of(render(state, {80, 24}, kAscii)))
      text += " " + line.substr(std::min(line.find_first_not_of(' '), line.size()));
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  told("asked for 2.0 GiB with 15.0 GiB in use ");
  told("and is in no share: no limit applies to it; the limiter is not loaded ");
  state.view = TopView::process;
  state.selected = "process//50977/50977/ffmpeg";
  told("and is in no share: no limit applies to it; the limiter is not loaded ");
}

TEST_F(TopPicture, ALongNameHidesNeitherTheLevelNorTheFailPolicy) {
  TopState state = test_state();
  state.mode = TopMode::details;
  auto& share = *std::ranges::find(state.now->shares, "train", &snapshot::Share::name);
  share.name = std::string(63, 'n');
  state.selected = history_key(share.name, test_gpu(0).uuid);
  for (const unsigned width : {60u, 80u, 120u}) {
    const std::string text = render(state, {width, 24}, kAscii);
    EXPECT_NE(text.find("  level hook  fails open"), std::string::npos) << text;
    EXPECT_NE(text.find(" in all"), std::string::npos) << text;
  }
}

TEST_F(TopPicture, TheHelpFitsTheSmallestTerminal) {
  TopState state = apply(test_state(), {KeyKind::text, "?"});
  const std::string first = render(state, kSmallestTop, kAscii);
  EXPECT_NE(first.find("arrows show the rest"), std::string::npos) << first;
  std::string all = first;
  for (int i = 0; i < 40; ++i) {
    state = apply(std::move(state), {KeyKind::down, ""});
    all += "\n" + render(state, kSmallestTop, kAscii);
  }
  for (const char* words : {" process in\n                            full; back\n", " shows all\n", "this page; end\n",
                            "REF refusals\n", " can\n"})
    EXPECT_NE(all.find(words), std::string::npos) << words << "\n" << first;
  EXPECT_EQ(render(apply(std::move(state), {KeyKind::home, ""}), kSmallestTop, kAscii), first);
  EXPECT_EQ(render(apply(test_state(), {KeyKind::text, "?"}), {80, 24}, kAscii).find("arrows show"), std::string::npos);
}

// 0 % would send an operator to look elsewhere.
TEST_F(TopPicture, OutsideTimeIsPartOfTheGpusTime) {
  TopState state = test_state();
  auto& picture = *state.now;
  for (auto& share : picture.shares) share.devices[0].held_ratio = 0;
  picture.processes[3].devices[0].busy_ratio = 0.9;
  picture.processes[3].finding = "process 50977 (ffmpeg, carol) is in no share";
  std::string text = render(state, {80, 24}, kAscii);
  EXPECT_NE(text.find("   time       ?"), std::string::npos) << text;
  EXPECT_NE(text.find("  90% 71C"), std::string::npos) << text;
  state.view = TopView::gpu;
  EXPECT_EQ(rows_of(state)[0].state, "1 outside");
  EXPECT_EQ(rows_of(state)[0].held_ratio, 0.9);
  // If the driver does not report use per process, its figure for the GPU counts.
  picture.processes[3].devices[0].busy_ratio = std::nullopt;
  text = render(state, {80, 24}, kAscii);
  EXPECT_NE(text.find("  93% 71C"), std::string::npos) << text;
  // Processes outside shares cannot have more than what the shares leave.
  for (auto& share : picture.shares) share.devices[0].held_ratio = 0.4;
  EXPECT_NE(render(state, {80, 24}, kAscii).find(" 120% 71C"), std::string::npos);
}

TEST_F(TopPicture, AFailedLookIsShownBesideTheOldView) {
  TopState state = test_state();
  state.trouble = "the daemon does not answer";
  const std::string text = render(state, {80, 24}, kAscii);
  EXPECT_NE(text.find("the daemon does not answer"), std::string::npos);
  EXPECT_NE(text.find("train"), std::string::npos);
}

TEST_F(TopPicture, OnceIsATableWithALabelForEachFigure) {
  EXPECT_EQ(top_text(test_state(), {}), R"(node lab-3, daemon, 1 outside every share, SIMULATED
GPU  MODEL       MEMORY  COMMITTED  BUSY  TEMPERATURE     POWER  SLOWED BY
0    H200   32.0/141.0G      40.0G   93%         71 C  698/700W  power cap
1    H200     0B/141.0G         0B    0%         34 C   76/700W  -
SHARE       OWNER  GPU      MEMORY  TIME    OF  WAITS  REFUSED   IDLE  LEVEL  STATE
notebook    bob    0     8.0/16.0G    0%   50%     0%        0  3h12m  hook   idle
train       alice  0    15.0/16.0G   52%  50%+     4%        3      -  hook   at limit
vllm-small  svc    0      7.0/8.0G   31%   30%     0%        0      -  hook   ok
)");
}

TEST_F(TopPicture, OnceNamesItsRowsInTheHeading) {
  for (const auto& [view, heading] : {std::pair{TopView::gpu, "\nGPU         OWNER"},
                                      {TopView::user, "\nUSER   OWNER"},
                                      {TopView::process, "\nCOMMAND"}}) {
    TopState state = test_state();
    state.view = view;
    const std::string text = top_text(state, {});
    EXPECT_NE(text.find(heading), std::string::npos) << text;
    EXPECT_EQ(text.find("\nSHARE"), std::string::npos) << text;
  }
}

// "GPU 10" sorted between "GPU 1" and "GPU 2" would send an operator to the wrong card.
TEST_F(TopPicture, GpusAreInNumericOrderForAnySortColumn) {
  TopState state = test_state();
  for (std::uint32_t i = 2; i < 16; ++i) state.now->gpus.push_back(test_gpu(i));
  state.view = TopView::gpu;
  for (const auto sort : {TopSort::name, TopSort::gpu}) {
    state.sort = sort;
    const auto rows = rows_of(state);
    ASSERT_EQ(rows.size(), 16u);
    for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i].gpu, std::to_string(i));
  }
  state = test_state();
  for (const char* name : {"job-10", "job-9", "job-010b", "job"})
    state.now->shares.push_back(test_share(name, "dora", 1, 0, 0, 1, 0));
  std::string order;
  for (const auto& row : rows_of(state))
    if (row.name.starts_with("job")) order += row.name + " ";
  EXPECT_EQ(order, "job job-9 job-10 job-010b ");
}

TEST_F(TopPicture, EachColumnSortsByItsValue) {
  TopState state = test_state();
  const auto order = [&state] {
    std::string names;
    for (const auto& row : rows_of(state))
      if (!row.share.empty()) names += row.name.substr(0, 1);
    return names;
  };
  // notebook, train, vllm-small; rows that compare equal may come in any order.
  for (const auto& [sort, wanted] : {std::pair{TopSort::name, "ntv"},
                                     {TopSort::owner, "tnv"},
                                     {TopSort::memory, "tnv"},
                                     {TopSort::compute, "tvn"},
                                     {TopSort::waited, "t"},
                                     {TopSort::refusals, "t"},
                                     {TopSort::idle, "n"},
                                     {TopSort::state, "nvt"}}) {
    state.sort = sort;
    state.reverse = false;
    EXPECT_TRUE(order().starts_with(wanted)) << sort_word(sort) << ": " << order();
    state.reverse = true;
    EXPECT_TRUE(order().ends_with(std::string(std::string_view(wanted).rbegin(), std::string_view(wanted).rend())))
        << sort_word(sort) << ", reversed: " << order();
  }
}

// Without metered shares, a GPU once showed "93%" in the bar and "-" in the table.
TEST_F(TopPicture, BarAndRowShowTheSameGpuTime) {
  TopState state = test_state();
  for (auto& share : state.now->shares)
    for (auto& device : share.devices) device.held_ratio.reset();
  state.view = TopView::gpu;
  EXPECT_EQ(rows_of(state).front().held_ratio, state.now->gpus[0].busy_ratio);
  const std::string text = render(state, {80, 24}, kAscii);
  EXPECT_NE(text.find(" 93% 71C"), std::string::npos) << text;
  EXPECT_NE(text.find("32.0/141.0G #.....  93%"), std::string::npos) << text;
}

TEST_F(TopPicture, TheReasonForARefusedLimitIsShownInFull) {
  TopState state = test_state();
  state.said =
      "the share 'train' asks for 1.0 TiB of GPU-4132ffc0-0d3f-45ec-acf9-d883d1120184, which has 141.0 GiB; no share "
      "can have more than its card; --oversubscribe makes the rest of it host memory";
  for (const FrameSize size : {FrameSize{80, 24}, FrameSize{60, 12}}) {
    const auto lines = lines_of(render(state, size, kAscii));
    ASSERT_EQ(lines.size(), size.rows);
    std::string text;
    for (const auto& line : lines) text += line;
    EXPECT_TRUE(text.ends_with(state.said)) << text;
    EXPECT_NE(text.find(">notebook"), std::string::npos) << "the table is there beside it: " << text;
  }
}

TEST_F(TopPicture, OnceAsJsonHasTheWholeViewAndSimulated) {
  const auto whole = nlohmann::json::parse(top_json(test_state()));
  EXPECT_EQ(whole.at("schema"), "headgate.top/v1");
  EXPECT_EQ(whole.at("simulated"), true);
  EXPECT_EQ(whole.at("snapshot").at("shares").size(), 3u);
}

}  // namespace
}  // namespace headgate::cli
