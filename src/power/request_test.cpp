#include "power/request.hpp"

#include <gtest/gtest.h>

namespace headgate::power {
namespace {

TEST(PowerRequest, SettingsAreReadAsPeopleWriteThem) {
  const auto request = parse_power_request(
      RequestKind::lease,
      R"({"gpus":[0,"GPU-1"],"settings":{"power_limit":"80%","persistence":true,"gpu_clocks":"210-900MHz",)"
      R"("compute_mode":"exclusive process"},"holder_pid":7,"ttl_s":60,"dry_run":true})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->gpus, (std::vector<std::string>{"0", "GPU-1"}));
  EXPECT_EQ(request->wanted.power_limit, config::parse_power_limit("80%"));
  EXPECT_EQ(request->wanted.gpu_mhz, (config::Range{210, 900}));
  EXPECT_EQ(request->wanted.compute_mode, 3u);
  EXPECT_EQ(request->holder_pid, 7u);
  EXPECT_EQ(request->ttl_s, 60u);
  EXPECT_TRUE(request->dry_run);
  const auto numbers = parse_power_request(
      RequestKind::settings,
      R"({"gpus":"all","settings":{"power_limit_mw":200000,"gpu_clocks_mhz":[0,0],"mem_clocks_mhz":[405,405],)"
      R"("compute_mode":0}})");
  ASSERT_TRUE(numbers) << numbers.error().message;
  EXPECT_EQ(numbers->gpus, std::vector<std::string>{"all"});
  EXPECT_EQ(numbers->wanted.power_limit, config::parse_power_limit("200W"));
  EXPECT_EQ(numbers->wanted.gpu_mhz, config::Range{});
  EXPECT_TRUE(parse_power_request(RequestKind::reset, R"({"gpus":[0]})"));
  EXPECT_EQ(parse_power_request(RequestKind::settings, R"({"gpus":[0],"profile":"quiet"})")->profile, "quiet");
}

TEST(PowerRequest, EachMistakeNamesWhatIsAccepted) {
  const std::pair<const char*, const char*> bad[] = {
      {"", "no JSON object"},
      {"[]", "no JSON object"},
      {R"({"settings":{"persistence":true},"ttl_s":1})", "gpus is missing"},
      {R"({"gpus":[],"settings":{"persistence":true},"ttl_s":1})", "no list of GPUs"},
      {R"({"gpus":"0","settings":{"persistence":true},"ttl_s":1})", "no list of GPUs"},
      {R"({"gpus":[-1],"settings":{"persistence":true},"ttl_s":1})", "no index and no UUID"},
      {R"({"gpus":[4294967296],"settings":{"persistence":true},"ttl_s":1})", "no index and no UUID"},
      {R"({"gpus":[0],"ttl_s":1})", "neither settings nor profile"},
      {R"({"gpus":[0],"settings":{},"ttl_s":1})", "settings names nothing"},
      {R"({"gpus":[0],"settings":{"persistence":true},"profile":"x","ttl_s":1})", "exclude each other"},
      {R"({"gpus":[0],"settings":{"watts":5},"ttl_s":1})", "unknown key 'watts'"},
      {R"({"gpus":[0],"settings":{"power_limit_mw":4294967296},"ttl_s":1})", "settings.power_limit_mw = 4294967296"},
      {R"({"gpus":[0],"settings":{"power_limit_mw":"200000"},"ttl_s":1})", "is not accepted"},
      {R"({"gpus":[0],"settings":{"power_limit":"200"},"ttl_s":1})", "settings.power_limit = \"200\" is not accepted"},
      {R"({"gpus":[0],"settings":{"power_limit":"200W","power_limit_mw":1},"ttl_s":1})", "both power_limit and"},
      {R"({"gpus":[0],"settings":{"power_limit":"200W","budget":"1W"},"ttl_s":1})", "exclude each other"},
      {R"({"gpus":[0],"settings":{"budget":"1W","weights":[0]},"ttl_s":1})", "the entry 0"},
      {R"({"gpus":[0],"settings":{"gpu_clocks_mhz":[900,210]},"ttl_s":1})", "is not accepted"},
      {R"({"gpus":[0],"settings":{"gpu_clocks":"900-210MHz"},"ttl_s":1})", "is not accepted"},
      {R"({"gpus":[0],"settings":{"compute_mode":1},"ttl_s":1})", "is not accepted"},
      {R"({"gpus":[0],"settings":{"persistence":true}})", "neither holder_pid nor ttl_s"},
      {R"({"gpus":[0],"settings":{"persistence":true},"ttl_s":0})", "ttl_s is no number"},
      {R"({"gpus":[0],"settings":{"persistence":true},"ttl_s":2592001})", "ttl_s is no number from 1 to 2592000"},
      {R"({"gpus":[0],"settings":{"persistence":true},"holder_pid":4294967295})", "holder_pid is no number"},
      {R"({"gpus":[0],"settings":{"persistence":true},"ttl_s":1,"x":1})", "unknown key 'x'"},
      {R"({"gpus":[0],"settings":{"persistence":true},"ttl_s":1,"dry_run":1})", "dry_run = 1 is not accepted"},
      {R"({"gpus":[0],"settings":{"persistence":true},"ttl_s":1,"ttl_s":2})", "the key 'ttl_s' is there twice"},
      {R"({"gpus":[0],"settings":{"persistence":true,"persistence":false},"ttl_s":1})", "'persistence' is there twice"},
  };
  for (const auto& [text, words] : bad) {
    const auto refused = parse_power_request(RequestKind::lease, text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, ErrorCode::usage);
    EXPECT_NE(refused.error().message.find(words), std::string::npos) << text << ": " << refused.error().message;
    EXPECT_FALSE(refused.error().hint.empty()) << text;
  }
  EXPECT_FALSE(parse_power_request(RequestKind::settings, R"({"gpus":[0],"settings":{"persistence":true},"ttl_s":1})"));
  EXPECT_FALSE(parse_power_request(RequestKind::reset, R"({"gpus":[0],"settings":{"persistence":true}})"));
}

TEST(PowerRequest, SettingsAreWrittenAsTheyAreRead) {
  config::PowerSettings settings;
  settings.power_limit = config::parse_power_limit("62.5%");
  settings.gpu_mhz = config::Range{210, 900};
  settings.mem_mhz = config::Range{};
  settings.persistence = true;
  settings.compute_mode = 2;
  const auto again =
      parse_power_request(RequestKind::settings, R"({"gpus":[0],"settings":)" + settings_json(settings) + "}");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->wanted, settings);
}

}  // namespace
}  // namespace headgate::power
