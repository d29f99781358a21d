#include <gtest/gtest.h>

#include "cli/top/state.hpp"
#include "cli/top/test_node.hpp"

namespace headgate::cli {
namespace {

TopState press(TopState state, const std::string& letters) {
  for (const char letter : letters) state = apply(std::move(state), {KeyKind::text, std::string(1, letter)});
  return state;
}
TopState press(TopState state, KeyKind kind) { return apply(std::move(state), {kind}); }

std::vector<std::string> names(const TopState& state) {
  std::vector<std::string> all;
  for (const auto& row : rows_of(state)) all.push_back(row.name);
  return all;
}
using Names = std::vector<std::string>;

TEST(TopKeys, QuitsByQAndByF10) {
  EXPECT_TRUE(press(test_state(), "q").quit);
  EXPECT_TRUE(press(test_state(), KeyKind::f10).quit);
  EXPECT_FALSE(press(test_state(), "/q").quit) << "a letter of the filter";
}

TEST(TopKeys, TheChosenRowStaysChosenWhenTheTableIsReordered) {
  TopState state = press(press(test_state(), KeyKind::down), KeyKind::down);
  EXPECT_EQ(rows_of(state)[selected_row(rows_of(state), state)].name, "vllm-small");
  auto picture = test_picture();
  picture.shares.insert(picture.shares.begin(), test_share("aaa", "bob", 1, 0, 0, 1, 0));
  state = observed(state, picture, {});
  EXPECT_EQ(rows_of(state)[selected_row(rows_of(state), state)].name, "vllm-small");
  EXPECT_EQ(selected_row(rows_of(state), press(state, KeyKind::home)), 0u);
  EXPECT_EQ(selected_row(rows_of(state), press(press(state, KeyKind::end), KeyKind::page_down)), 3u);
  EXPECT_EQ(selected_row(rows_of(state), press(press(state, KeyKind::home), KeyKind::up)), 0u);
  EXPECT_EQ(selected_row(rows_of(state), press(state, KeyKind::page_up)), 0u);
}

TEST(TopKeys, TheFilterMatchesNamesOwnersStatesAndEscClearsIt) {
  TopState state = press(test_state(), "/TRAI");
  EXPECT_EQ(state.mode, TopMode::filter);
  EXPECT_EQ(names(state), Names{"train"});
  EXPECT_EQ(names(press(state, KeyKind::enter)), Names{"train"});
  EXPECT_EQ(names(press(state, KeyKind::escape)).size(), 3u);
  EXPECT_EQ(names(press(press(state, KeyKind::enter), KeyKind::escape)).size(), 3u);
  EXPECT_EQ(names(press(test_state(), "/alice")), Names{"train"});
  EXPECT_EQ(names(press(test_state(), "/idle")), Names{"notebook"});
  EXPECT_TRUE(names(press(test_state(), "/zzz")).empty());
}

TEST(TopKeys, BackspaceTakesAWholeCharacterOfTheFilter) {
  TopState state = apply(press(test_state(), "/"), {KeyKind::text, "\xe4\xb8\x96"});
  EXPECT_EQ(press(state, KeyKind::backspace).filter, "");
  EXPECT_EQ(press(press(state, KeyKind::backspace), KeyKind::backspace).filter, "");
}

TEST(TopKeys, SortingGoesFromColumnToColumnAndReverses) {
  EXPECT_EQ(names(test_state()), (Names{"notebook", "train", "vllm-small"}));
  TopState state = press(test_state(), ">>>>");
  EXPECT_EQ(state.sort, TopSort::compute);
  EXPECT_EQ(names(state), (Names{"train", "vllm-small", "notebook"}));
  EXPECT_EQ(names(press(state, "r")), (Names{"notebook", "vllm-small", "train"}));
  EXPECT_EQ(press(test_state(), "<").sort, TopSort::state) << "round the end";
  EXPECT_EQ(press(test_state(), KeyKind::f6).sort, TopSort::owner);
}

TEST(TopKeys, ViewsAreShareGpuUserAndProcess) {
  TopState state = press(test_state(), "s");
  EXPECT_EQ(names(state), (Names{"GPU 0 H200", "GPU 1 H200"}));
  state = press(state, "s");
  EXPECT_EQ(names(state), (Names{"alice", "bob", "carol", "svc"}));
  state = press(state, KeyKind::tab);
  EXPECT_EQ(names(state), (Names{"ffmpeg", "jupyter", "python", "vllm"}));
  EXPECT_EQ(press(state, "s").view, TopView::share);
  EXPECT_EQ(press(state, "1").view, TopView::share);
  EXPECT_EQ(press(state, "3").view, TopView::user);
}

TEST(TopKeys, TheTreeNestsProcessesInSharesAndSharesInGpus) {
  EXPECT_EQ(names(press(test_state(), "t")), (Names{"notebook", "jupyter", "train", "python", "vllm-small", "vllm"}));
  EXPECT_EQ(names(press(test_state(), "2t")), (Names{"GPU 0 H200", "notebook", "train", "vllm-small", "GPU 1 H200"}));
}

TEST(TopKeys, TheUserKeyCyclesThroughUsers) {
  TopState state = press(test_state(), "u");
  EXPECT_EQ(names(state), Names{"train"});
  EXPECT_EQ(names(press(state, "u")), Names{"notebook"});
  EXPECT_EQ(names(press(state, "uuuu")).size(), 3u);
}

TEST(TopKeys, PresetsCycle) {
  TopState state = press(test_state(), "p");
  EXPECT_EQ(state.preset, TopPreset::table);
  state = press(std::move(state), "p");
  EXPECT_EQ(state.preset, TopPreset::gpus);
  EXPECT_EQ(press(std::move(state), "p").preset, TopPreset::all);
}

TEST(TopKeys, HelpOpensAndClosesByEachOfItsKeys) {
  for (const auto& key : {Key{KeyKind::text, "?"}, Key{KeyKind::text, "h"}, Key{KeyKind::f1, ""}}) {
    const TopState helped = apply(test_state(), key);
    EXPECT_EQ(helped.mode, TopMode::help);
    EXPECT_EQ(apply(helped, key).mode, TopMode::table);
  }
}

TEST(TopKeys, AHeldViewStaysUntilItContinues) {
  TopState state = press(test_state(), "z");
  EXPECT_EQ(observed(state, {}, {}).now->shares.size(), 3u);
  EXPECT_EQ(observed(press(state, "z"), {}, {}).now->shares.size(), 0u);
}

TEST(TopKeys, TheIntervalStaysWithinItsLimits) {
  EXPECT_EQ(press(test_state(), "+").interval_ms, 2000u);
  EXPECT_EQ(press(test_state(), "-").interval_ms, 500u);
  EXPECT_EQ(press(test_state(), "--------").interval_ms, 100u);
  EXPECT_EQ(press(test_state(), "++++++++").interval_ms, 60'000u);
}

TEST(TopKeys, LimitsAreSetOnlyThroughTheDaemonAndNeverReadonly) {
  TopState state = press(press(test_state(), KeyKind::down), "e");
  EXPECT_EQ(state.mode, TopMode::limits);
  state = press(press(state, "mem=12GiB compute=50%"), KeyKind::enter);
  EXPECT_EQ(state.wish, (LimitsWish{"train", {{"mem", "12GiB"}, {"compute", "50%"}}}));

  for (const char* bad : {"12GiB", "=5", "mem=", "mem=8GiB x"}) {
    TopState refused = press(press(press(test_state(), "e"), bad), KeyKind::enter);
    EXPECT_FALSE(refused.wish) << bad;
    EXPECT_NE(refused.said.find("is not understood; accepted: mem=12GiB compute=50%"), std::string::npos) << bad;
  }
  TopState readonly = test_state();
  readonly.readonly = true;
  EXPECT_EQ(press(readonly, "e").mode, TopMode::table);
  TopState alone = test_state();
  alone.daemon = false;
  EXPECT_EQ(press(alone, "e").said, "limits are changed by the daemon, and none answers here");
  EXPECT_FALSE(press(press(press(test_state(), "emem=1GiB"), KeyKind::escape), KeyKind::enter).wish);
}

SignalWish signal(int number, const std::vector<std::pair<std::uint32_t, std::string>>& to) {
  SignalWish wish{.to = {}, .number = number};
  for (const auto& [pid, command] : to) {
    const std::string user = pid == 48121 ? "alice" : pid == 50120 ? "bob" : pid == 31007 ? "svc" : "carol";
    wish.to.push_back({pid, command, user, kTestTime});
  }
  return wish;
}

TEST(TopKeys, ASignalGoesToAProcessOrAllOfAShare) {
  TopState state = press(press(test_state(), "4"), KeyKind::end);
  state = press(press(state, "k"), KeyKind::enter);
  EXPECT_EQ(state.signal, signal(15, {{31007, "vllm"}}));
  state = press(press(press(test_state(), KeyKind::down), KeyKind::f9), "kill");
  EXPECT_EQ(press(state, KeyKind::enter).signal, signal(9, {{48121, "python"}}));
  EXPECT_FALSE(press(press(state, KeyKind::escape), KeyKind::enter).signal);
  EXPECT_EQ(press(test_state(), "2k").said, "choose a process, or a share that has some, first");
  state = press(press(test_state(), "knine"), KeyKind::enter);
  EXPECT_FALSE(state.signal);
  EXPECT_EQ(state.said.substr(0, 34), "'nine' is no signal; accepted: TER");
}

TEST(TopKeys, TaggedProcessesAreSignalledTogether) {
  TopState state = press(test_state(), "4  ");
  EXPECT_EQ(state.tagged, (std::map<std::uint32_t, std::uint64_t>{{50120, kTestTime}, {50977, kTestTime}}))
      << "each tag goes one row down";
  EXPECT_EQ(press(press(state, "k"), KeyKind::enter).signal, signal(15, {{50120, "jupyter"}, {50977, "ffmpeg"}}));
  EXPECT_EQ(press(press(state, KeyKind::up), " ").tagged.size(), 1u) << "off again";
  EXPECT_TRUE(press(state, KeyKind::escape).tagged.empty());
  auto picture = test_picture();
  picture.processes.pop_back();
  EXPECT_EQ(observed(state, picture, {}).tagged.size(), 1u);
  EXPECT_TRUE(press(test_state(), " ").tagged.empty()) << "a share";
}

// Otherwise a signal or limit would hit the row shown first.
TEST(TopKeys, TheChosenProcessStaysChosenWhileTheUserTypes) {
  auto picture = test_picture();
  std::erase_if(picture.processes, [](const auto& process) { return process.pid == 48121; });
  std::erase_if(picture.shares, [](const auto& share) { return share.name == "train"; });
  TopState state = press(press(test_state(), KeyKind::down), "kHUP");
  EXPECT_EQ(press(observed(state, picture, {}), KeyKind::enter).signal, signal(1, {{48121, "python"}}));
  state = press(press(test_state(), KeyKind::down), "emem=1GiB");
  EXPECT_EQ(press(observed(state, picture, {}), KeyKind::enter).wish, (LimitsWish{"train", {{"mem", "1GiB"}}}));
}

TEST(TopKeys, AGoneProcessIsNotReplacedByAnother) {
  auto picture = test_picture();
  std::erase_if(picture.processes, [](const auto& process) { return process.pid == 50977; });
  TopState state = press(press(test_state(), "4"), KeyKind::home);
  EXPECT_EQ(press(observed(state, picture, {}), "k").said, "the row that was chosen is gone; choose another");
  state = press(observed(press(state, " "), picture, {}), "k");
  EXPECT_EQ(state.said, "some of what was tagged has ended; look, and press k again");
  EXPECT_EQ(state.mode, TopMode::table);
  picture.shares.erase(picture.shares.begin());
  state = press(test_state(), KeyKind::home);
  EXPECT_EQ(press(observed(state, picture, {}), "e").said, "the row that was chosen is gone; choose another");
}

// Two containers may each have a process 7, and a page may claim another user's process.
TEST(TopKeys, NoSignalGoesToAForeignOrClaimedPid) {
  auto picture = test_picture();
  picture.processes = {test_process(7, "train", "alice", "ours", 1), test_process(0, "train", "alice", "theirs", 1),
                       test_process(812, "vllm-small", "root", "sshd", 1)};
  picture.processes[1].pid_in_share = 7;
  picture.processes[2].claimed = true;
  const TopState state = press(observed(test_state(), picture, {}), "4");
  ASSERT_EQ(names(state), (Names{"ours", "sshd", "theirs"}));
  const TopState theirs = press(state, KeyKind::end);
  EXPECT_EQ(rows_of(theirs)[selected_row(rows_of(theirs), theirs)].name, "theirs") << "one number, two rows";
  for (const TopState& refused : {theirs, press(theirs, KeyKind::up)}) {
    EXPECT_NE(press(refused, "k").said.find("only its share's page tells it"), std::string::npos);
    EXPECT_TRUE(press(refused, " ").tagged.empty());
  }
  const TopState share = press(press(press(state, "1"), KeyKind::home), KeyKind::down);
  EXPECT_EQ(press(press(share, "k"), KeyKind::enter).signal->to.size(), 1u) << "of train's two the one that is known";
}

TEST(TopKeys, NoSignalIsSentReadonlyOrToAnotherMachine) {
  TopState state = test_state();
  state.readonly = true;
  EXPECT_EQ(press(state, "k").said, "this is --readonly: no signal is sent from here");
  state.readonly = false;
  state.now->node.pid_space = "another";
  EXPECT_EQ(press(state, "k").said, "these are processes of another machine or container: signal them there");
  state.now->node.pid_space = state.pid_space = "";
  EXPECT_EQ(press(state, "k").mode, TopMode::table) << "the pid namespace is not known";
  state.now->node.pid_space = state.pid_space = "boot:4026532000";
  const TopState in_no_share = press(press(state, "4"), KeyKind::home);
  EXPECT_EQ(press(in_no_share, "k").mode, TopMode::table);
  EXPECT_EQ(press(press(in_no_share, KeyKind::end), "k").mode, TopMode::signal);
}

TEST(TopKeys, HistoryAndEventsAreBoundedAndOldSharesForgotten) {
  TopState state = test_state();
  for (int i = 0; i < 300; ++i) state = observed(std::move(state), test_picture(), test_events());
  EXPECT_EQ(state.held.at(history_key("train", test_gpu(0).uuid)).size(), kTopHistory);
  EXPECT_EQ(state.events.size(), kTopEvents);
  auto picture = test_picture();
  picture.shares.clear();
  state = observed(std::move(state), picture, {});
  EXPECT_EQ(state.held.size(), 2u) << "the two GPUs";
  EXPECT_TRUE(state.memory.empty());
}

}  // namespace
}  // namespace headgate::cli
