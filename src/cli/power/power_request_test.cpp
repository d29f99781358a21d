#include "cli/power/power_request.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/test_parse.hpp"

namespace headgate::cli {
namespace {

using nlohmann::json;

const std::vector<std::string> kUuids = {"GPU-a", "GPU-b"};

// What was written of `headgate power` or `headgate gpu`, and the whole command's name.
struct Written {
  std::string command;
  PowerOptions own;
};

Result<Written> written(const std::string& parent, std::vector<const char*> words) {
  const std::string name = parent + " " + words.front();
  words.insert(words.begin(), parent.c_str());
  const auto add = [&name](Options& options, PowerOptions& own) {
    if (name == "power set") add_power_set(options, own);
    else if (name == "power apply") add_power_apply(options, own);
    else if (name == "power reset") add_power_reset(options, own);
    else add_gpu_setting(options, own, {"MODE", "compute_mode", "", ""});
  };
  const auto read = TRY(read_words<PowerOptions>(name, add, words));
  return Written{read.call.command, read.own};
}

Written parsed(const std::vector<const char*>& words) {
  auto read = written("power", words);
  EXPECT_TRUE(read) << read.error().message;
  return read.value_or(Written{});
}

Result<std::string> body_of_words(const std::vector<const char*>& words) {
  const Written read = parsed(words);
  return power_body(read.command, read.own, kUuids);
}

json body(const std::vector<const char*>& words) {
  const auto text = body_of_words(words);
  EXPECT_TRUE(text) << text.error().message;
  return json::parse(text.value_or("null"));
}

Error refusal(const std::vector<const char*>& words) {
  const auto text = body_of_words(words);
  EXPECT_FALSE(text) << *text;
  return text ? Error{} : text.error();
}

TEST(PowerRequest, TheUnitOfAValueNamesWhatItSets) {
  const std::pair<const char*, json> values[] = {
      {"300W", {{"power_limit", "300W"}}},      {"250w", {{"power_limit", "250w"}}},
      {"80%", {{"power_limit", "80%"}}},        {"default", {{"power_limit", "default"}}},
      {"1200MHz", {{"gpu_clocks", "1200MHz"}}}, {"210-1200MHz", {{"gpu_clocks", "210-1200MHz"}}},
      {"none", {{"gpu_clocks", "none"}}}};
  for (const auto& [value, settings] : values)
    EXPECT_EQ(body({"set", value}), (json{{"gpus", kUuids}, {"settings", settings}})) << value;
  EXPECT_EQ(body({"set", "80%", "1200MHz"})["settings"], (json{{"power_limit", "80%"}, {"gpu_clocks", "1200MHz"}}));
}

TEST(PowerRequest, OptionsSetTheOtherControls) {
  EXPECT_EQ(body({"set", "--mem-clocks", "none", "--persistence", "on", "--compute-mode", "exclusive"})["settings"],
            (json{{"mem_clocks", "none"}, {"persistence", true}, {"compute_mode", "exclusive process"}}));
  EXPECT_EQ(body({"set", "--persistence=off"})["settings"], (json{{"persistence", false}}));
  EXPECT_EQ(body({"set", "--budget", "500W", "--weights", "2,1"})["settings"],
            (json{{"budget", "500W"}, {"weights", {2, 1}}}));
}

TEST(PowerRequest, GpuModeSetsOnlyTheComputeMode) {
  for (const auto& [word, mode] :
       {std::pair{"default", "default"}, {"exclusive", "exclusive process"}, {"prohibited", "prohibited"}}) {
    const auto read = written("gpu", {"mode", word, "--gpu", "0", "--for", "2h"});
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_TRUE(wants_lease(read->own.order));
    EXPECT_EQ(json::parse(*power_body(read->command, read->own, kUuids))["settings"], (json{{"compute_mode", mode}}));
  }
  EXPECT_FALSE(written("gpu", {"mode"})) << "a mode has to be named";
}

TEST(PowerRequest, AnEndMakesALease) {
  const auto timed = parsed({"set", "300W", "--for", "2h", "--pid", "4711"});
  EXPECT_TRUE(wants_lease(timed.own.order));
  const json lease = json::parse(*power_body(timed.command, timed.own, kUuids));
  EXPECT_EQ(lease["ttl_s"], 7200);
  EXPECT_EQ(lease["holder_pid"], 4711);
  EXPECT_EQ(body({"apply", "quiet", "--confirm", "30s"}),
            (json{{"gpus", kUuids}, {"profile", "quiet"}, {"ttl_s", 30}}));
  EXPECT_FALSE(wants_lease(parsed({"set", "300W"}).own.order));
  EXPECT_EQ(body({"reset", "-n"}), (json{{"gpus", kUuids}, {"dry_run", true}}));
}

TEST(PowerRequest, MistakesAreRefusedWithWhatIsAccepted) {
  struct Mistake {
    std::vector<const char*> words;
    const char *message, *hint;
  };
  const Mistake mistakes[] = {
      {{"set", "300"}, "power set: '300' is not understood", "did you mean 300W or 300MHz? accepted: 300W, 80%"},
      {{"set", "fast"}, "power set: 'fast' is not understood", "accepted: 300W"},
      {{"set", "W"}, "power set: 'W' is not understood", "accepted: 300W"},
      {{"set", "300W", "80%"}, "power set: '80%' sets the power limit a second time", "once"},
      {{"set", "none", "900MHz"}, "power set: '900MHz' sets the GPU clocks a second time", "once"},
      {{"set"}, "power set: nothing to set was named", "headgate power set 300W"},
      {{"set", "--persistence", "1"}, "power set: --persistence '1' is not understood", "accepted: on, off"},
      {{"set", "--weights", "1,2"}, "power set: --weights without --budget", "--budget 500W"},
      {{"set", "--budget", "500W", "--weights", "2,,1"}, "power set: --weights '2,,1' is not understood", "2,1"},
      {{"set", "--budget", "500W", "--weights", "0"}, "power set: --weights '0' is not understood", "2,1"},
      {{"set", "300W", "--for", "2"}, "--for '2' is not understood", "accepted: 30s"},
      {{"set", "300W", "--for", "31d"}, "--for '31d' is too long", "up to 30d"},
      {{"set", "300W", "--pid", "0"}, "power set: --pid '0' is no process's number", "accepted: 1"},
      {{"set", "300W", "--confirm", "30s", "--for", "2h"}, "power set: --confirm and --for exclude each other", "stay"},
      {{"apply", "quiet", "--confirm", "30s", "--pid", "1"}, "power apply: --confirm and --pid exclude each other", ""},
  };
  for (const auto& [words, message, hint] : mistakes) {
    const Error error = refusal(words);
    EXPECT_EQ(error.code, ErrorCode::usage) << message;
    EXPECT_EQ(error.message, message);
    EXPECT_TRUE(error.hint.contains(hint)) << error.hint;
  }
}

}  // namespace
}  // namespace headgate::cli
