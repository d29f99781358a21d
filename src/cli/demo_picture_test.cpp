#include "cli/demo_picture.hpp"

#include <gtest/gtest.h>

namespace headgate::cli {
namespace {

constexpr std::uint64_t kGiB = 1ull << 30;

DemoState mid_play() {
  return {.gpu = "NVIDIA H200, 141.0 GiB",
          .elapsed_s = 7.9,
          .total_s = 15,
          .shares = {{"trainer", "200 us kernels", 250'000, 249'000, 4 * kGiB, 16 * kGiB, true},
                     {"server", "20 us to 2 ms", 500'000, 503'000, 20 * kGiB, 32 * kGiB, true},
                     {"greedy", "wants 10 GiB", 100'000, 0, 6 * kGiB, 8 * kGiB, false}},
          .events = {"+0.0 s  trainer starts: 25 %, 16.0 GiB",
                     "+4.6 s  greedy asked for 4.0 GiB more: refused (6.0 GiB of 8.0 GiB in use)"}};
}

std::vector<std::string> lines_of(const std::string& frame) {
  std::vector<std::string> lines{""};
  for (const char c : frame) {
    if (c == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += c;
    }
  }
  return lines;
}

TEST(DemoPicture, at_80_by_24_the_frame_is_this_one) {
  EXPECT_EQ(render(mid_play(), {80, 24}, {.colour = false, .ascii = true}),
            R"( headgate demo   SIMULATED   NVIDIA H200, 141.0 GiB                 7 s of 15 s 

 SHARE     WORK             GPU TIME, last second (mark: limit)   asked      got
 trainer   200 us kernels   #########|.........................    25 %   24.9 %
 server    20 us to 2 ms    ##################|................    50 %   50.3 %
 greedy    wants 10 GiB     ...|...............................    10 %        -
 whole GPU                  ##########################.........           75.2 %

 SHARE     MEMORY                                                   used / limit
 trainer   ###########.................................       4.0 GiB / 16.0 GiB
 server    ############################................      20.0 GiB / 32.0 GiB
 greedy    #################################...........        6.0 GiB / 8.0 GiB

 EVENTS
  +0.0 s  trainer starts: 25 %, 16.0 GiB
  +4.6 s  greedy asked for 4.0 GiB more: refused (6.0 GiB of 8.0 GiB in use)







 Ctrl-C ends it)");
}

TEST(DemoPicture, the_smallest_frame_drops_blank_lines_and_keeps_the_newest_event) {
  EXPECT_EQ(render(mid_play(), kSmallestFrame, {.colour = false, .ascii = true}),
            R"( headgate demo   SIMULATED   NVIDIA H200, 141.0~7 s of 15 s 
 SHARE     WORK             GPU TIME, last~   asked      got
 trainer   200 us kernels   ####|..........    25 %   24.9 %
 server    20 us to 2 ms    ########|......    50 %   50.3 %
 greedy    wants 10 GiB     .|.............    10 %        -
 whole GPU                  ###########....           75.2 %
 SHARE     MEMORY                               used / limit
 trainer   ######..................       4.0 GiB / 16.0 GiB
 server    ###############.........      20.0 GiB / 32.0 GiB
 greedy    ##################......        6.0 GiB / 8.0 GiB
 EVENTS
  +0.0 s  trainer starts: 25 %, 16.0 GiB
  +4.6 s  greedy asked for 4.0 GiB more: refused (6.0 GiB o~
 Ctrl-C ends it)");
}

TEST(DemoPicture, no_frame_is_wider_or_higher_than_its_terminal) {
  for (unsigned columns = kSmallestFrame.columns; columns < 140; columns += 7) {
    for (unsigned rows = kSmallestFrame.rows; rows < 50; rows += 3) {
      DemoState state = mid_play();
      state.gpu = "NVIDIA GPU with a name that is far too long for any terminal that people use these days";
      for (int i = 0; i < 60; ++i) {
        state.events.push_back(
            "an event that goes on and on, longer than one line could ever hold, and then some more words, and a few "
            "more, until the end");
      }
      const auto lines = lines_of(render(state, {columns, rows}, {.colour = false, .ascii = true}));
      EXPECT_EQ(lines.size(), rows);
      for (const std::string& line : lines) {
        EXPECT_LE(line.size(), columns) << line;
      }
    }
  }
}

TEST(DemoPicture, every_frame_and_line_says_that_it_is_simulated) {
  for (const double elapsed : {0.0, 3.0, 15.0}) {
    DemoState state = mid_play();
    state.elapsed_s = elapsed;
    EXPECT_NE(render(state, {80, 24}, {}).find("SIMULATED"), std::string::npos);
    EXPECT_EQ(render_line(state).find("SIMULATED"), 0u);
    EXPECT_NE(render({}, {80, 24}, {}).find("SIMULATED"), std::string::npos);
  }
  EXPECT_NE(render_verdict({}, 1).find("SIMULATED"), std::string::npos);
}

TEST(DemoPicture, ascii_frames_hold_no_other_byte_and_colours_only_where_wanted) {
  for (const char c : render(mid_play(), {100, 30}, {.colour = false, .ascii = true})) {
    EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~'));
  }
  EXPECT_EQ(render(mid_play(), {80, 24}, {.colour = false, .ascii = false}).find('\x1b'), std::string::npos);
  EXPECT_NE(render(mid_play(), {80, 24}, {.colour = true, .ascii = false}).find('\x1b'), std::string::npos);
}

TEST(DemoPicture, a_share_above_its_limit_shows_past_the_mark) {
  DemoState state = mid_play();
  state.shares[0].got_ppm = 400'000;
  EXPECT_NE(render(state, {80, 24}, {.colour = false, .ascii = true}).find("#########|####"), std::string::npos);
}

TEST(DemoPicture, the_verdict_names_the_limit_that_was_not_kept) {
  const std::string text = render_verdict({{"trainer", 25, 24.97, 16 * kGiB, 4 * kGiB, 4 * kGiB, true, true},
                                           {"server", 50, 52.3, 32 * kGiB, 20 * kGiB, 20 * kGiB, true, false},
                                           {"greedy", 0, 0, 8 * kGiB, 10 * kGiB, 6 * kGiB, false, true}},
                                          12.3);
  EXPECT_NE(text.find("trainer     25.00 %   24.97 %    -0.03"), std::string::npos) << text;
  EXPECT_NE(text.find("+2.30"), std::string::npos);
  EXPECT_NE(text.find("NOT KEPT"), std::string::npos);
  EXPECT_NE(text.find("6.0 GiB / 8.0 GiB, asked 10.0 GiB"), std::string::npos);
  EXPECT_NE(text.find("A limit was not kept"), std::string::npos);
}

TEST(DemoPicture, the_verdict_says_so_when_all_is_well) {
  EXPECT_NE(render_verdict({{"trainer", 25, 24.97, 16 * kGiB, 4 * kGiB, 4 * kGiB, true, true}}, 12.3)
                .find("Every limit was kept"),
            std::string::npos);
}

}  // namespace
}  // namespace headgate::cli
