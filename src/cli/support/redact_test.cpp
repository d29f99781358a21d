#include "cli/support/support_bundle.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>

namespace headgate::cli {
namespace {

using nlohmann::json;

TEST(Redact, ANameHasTheSameReplacementEverywhere) {
  Redactor redactor(true);
  redactor.hide("user", "al");
  redactor.hide("user", "alice");
  const std::string text = redactor.text("alice, al and alice-train; alices stays, real too");
  const std::string word = text.substr(0, text.find(','));
  EXPECT_TRUE(word.starts_with("user-")) << text;
  EXPECT_EQ(word.size(), std::string("user-01234567").size());
  const std::string other = text.substr(word.size() + 2, word.size());
  EXPECT_NE(word, other);
  EXPECT_EQ(text, word + ", " + other + " and " + word + "-train; alices stays, real too");
}

// Debian's "nobody" has an ordinary UID. Redacted, the message would read "user-3f9a1c07 listens at its socket", the
// opposite of the finding.
TEST(Redact, TheUserNobodyIsNotReplaced) {
  Redactor redactor(true);
  redactor.hide("user", "nobody");
  EXPECT_EQ(redactor.text("headgated has ended: nobody listens"), "headgated has ended: nobody listens");
}

TEST(Redact, AnotherBundleHasOtherReplacements) {
  Redactor first(true), second(true);
  first.hide("host", "lab-3");
  second.hide("host", "lab-3");
  EXPECT_NE(first.text("lab-3"), second.text("lab-3"));
}

TEST(Redact, RemovesPathsOfUsersAndKeepsSystemPaths) {
  Redactor redactor(true);
  const std::string text = redactor.text("a copy at /home/alice/x/libcuda.so.1, not /usr/lib/libcuda.so.1 (/etc/x)");
  EXPECT_EQ(text.find("alice"), std::string::npos) << text;
  EXPECT_TRUE(text.starts_with("a copy at path-")) << text;
  EXPECT_TRUE(text.ends_with(", not /usr/lib/libcuda.so.1 (/etc/x)")) << text;
  EXPECT_EQ(redactor.text("/sys/fs/cgroup/kubepods/pod1").find("kubepods"), std::string::npos);
}

TEST(Redact, RemovesSecretsEvenIfNamesAreKept) {
  Redactor redactor(false);
  redactor.hide("user", "alice");
  redactor.hide_secret("s3cret");
  EXPECT_EQ(redactor.text("alice: s3cret, Authorization: Bearer abc.def-123 x"),
            "alice: [redacted], Authorization: Bearer [redacted] x");
  EXPECT_EQ(json::parse(redactor.json(R"({"user":"alice","text":"s3cret","pid":3})")),
            json::parse(R"({"user":"alice","text":"[redacted]","pid":3})"));
}

TEST(Redact, KeepsJsonKeysNumbersAndKnownValues) {
  Redactor redactor(true);
  const std::string all =
      R"({"user":"state","command":"python3","where":"docker 4f2a","state":"state","uuid":"GPU-1","pid":7,"share":"train"})";
  redactor.learn(all);
  const json out = json::parse(redactor.json(all));
  EXPECT_TRUE(out.at("user").get<std::string>().starts_with("user-"));
  EXPECT_TRUE(out.at("command").get<std::string>().starts_with("command-"));
  EXPECT_TRUE(out.at("where").get<std::string>().starts_with("docker place-"));
  EXPECT_EQ(out.at("state"), "state") << "a word that programs compare";
  EXPECT_EQ(out.at("uuid"), "GPU-1");
  EXPECT_EQ(out.at("pid"), 7);
  EXPECT_EQ(out.at("share"), "train");
}

TEST(Redact, HidesNamesOfEndedProgramsInEvents) {
  Redactor redactor(true);
  const std::string all = R"([
    {"pid":12,"text":"process 12 (secret (tool), pod ml/train-0) left train"},
    {"pid":12,"text":"secret tool (12) started in train"},
    {"pid":0,"text":"GPU 0 (H200) reports XID 79"}])";
  const json out = json::parse(redactor.json(all));
  EXPECT_EQ(out[0].at("text"), "process 12 ([redacted]) left train");
  EXPECT_EQ(out[1].at("text"), "a process (12) started in train");
  EXPECT_EQ(out[2].at("text"), "GPU 0 (H200) reports XID 79");
}

TEST(Redact, ReplacesLabelValuesOfMetrics) {
  Redactor redactor(true);
  redactor.hide("user", "share");
  const std::string page = redactor.metrics(
      "# HELP headgate_share_info share "
      "\"x\"\nheadgate_share_info{share=\"train\",user=\"share\",where=\"host\",pod=\"ml/a \\\"b\"} "
      "1\n"
      "headgate_up 1\n");
  EXPECT_TRUE(
      page.starts_with("# HELP headgate_share_info share \"x\"\nheadgate_share_info{share=\"train\",user=\"user-"))
      << page;
  EXPECT_NE(page.find(",where=\"host\",pod=\"place-"), std::string::npos) << page;
  EXPECT_TRUE(page.ends_with("\"} 1\nheadgate_up 1\n")) << page;
  EXPECT_EQ(page.find("ml/a"), std::string::npos);
}

// With realistic names, nothing that was hidden remains anywhere in the bundle.
RC_GTEST_PROP(RedactProperty, LeavesNoHiddenName, ()) {
  const auto name = rc::gen::container<std::string>(rc::gen::elementOf(std::string("abcxyz019_.-/= \"'(){}:,\\")));
  const auto id = [&] { return "q" + *name + "Q"; };
  const std::string user = id(), command = id(), where = id(), host = id();
  json process = {{"pid", 7}, {"user", user}, {"command", command}, {"where", "docker " + where}};
  json event = {{"pid", 7}, {"text", "process 7 (" + command + ", docker " + where + ") joined train of " + user}};
  const auto text = [](const json& one) { return one.dump(-1, ' ', true, json::error_handler_t::replace); };
  Bundle bundle{.files = {{"a.json", text({{"processes", {process}}, {"node", {{"name", host}}}})},
                          {"b.json", text({event})},
                          {"c.txt", "on " + host + " by " + user + ";\n"}},
                .about = {},
                .lacks = {"nothing of " + user}};
  Redactor redactor(true);
  redactor.hide("host", host);
  redact(bundle, redactor);
  std::string all = bundle.lacks[0] + bundle.files[2].content;
  for (int i = 0; i < 2; ++i) {
    const json flat = json::parse(bundle.files[static_cast<std::size_t>(i)].content).flatten();
    for (const auto& [path, value] : flat.items())
      if (value.is_string()) all += " " + value.get<std::string>();
  }
  for (const std::string& hidden : {user, command, where, host}) RC_ASSERT(all.find(hidden) == std::string::npos);
}

}  // namespace
}  // namespace headgate::cli
