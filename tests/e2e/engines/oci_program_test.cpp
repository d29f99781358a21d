// headgate-oci called directly: as a hook under NVIDIA's name, and as a filter.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "share_node.hpp"

namespace headgate::e2e {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Installed under the name of NVIDIA's hook, which is later on PATH.
TEST(NvidiasHook, RunsBeforeOursAndItsFailureIsReported) {
  const Directory directory("/tmp");
  const std::string ours = directory.path() + "/ours", theirs = directory.path() + "/theirs";
  for (const std::string& each : {ours, theirs, directory.path() + "/bundle"}) fs::create_directories(each);
  fs::create_symlink(HEADGATE_OCI, ours + "/nvidia-container-runtime-hook");
  const auto call = [&](const std::string& script, const std::string& config) {
    if (script.empty()) fs::remove(theirs + "/nvidia-container-runtime-hook");
    else std::ofstream(theirs + "/nvidia-container-runtime-hook") << "#!/bin/sh\n" + script;
    if (!script.empty()) fs::permissions(theirs + "/nvidia-container-runtime-hook", fs::perms::owner_all);
    std::ofstream(directory.path() + "/bundle/config.json") << config;
    std::ofstream(directory.path() + "/state")
        << R"({"id":"c","pid":4711,"bundle":")" + directory.path() + R"(/bundle"})";
    return outcome_of({"/usr/bin/env", "PATH=" + ours + ":" + theirs + ":/usr/bin:/bin", "/bin/sh", "-c",
                       "nvidia-container-runtime-hook prestart < " + directory.path() + "/state"});
  };
  const std::string gpu = R"({"process":{"env":["NVIDIA_VISIBLE_DEVICES=all"]},
                              "hooks":{"prestart":[{"path":"/x/nvidia-container-runtime-hook"}]}})";
  Outcome outcome = call("echo \"$1 $(wc -c)\"", gpu);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "prestart " + std::to_string(fs::file_size(directory.path() + "/state")) + "\n");
  outcome = call("echo no device >&2; exit 7", gpu);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err, "no device\nheadgate: NVIDIA's hook failed with status 7 (what it said stands before this)\n");
  outcome = call("", gpu);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.starts_with("headgate: there is no nvidia-container-runtime-hook of NVIDIA's on PATH"));
  outcome = call("", R"({"process":{"env":["NVIDIA_VISIBLE_DEVICES=void"]}})");
  EXPECT_EQ(outcome.status, 0) << "nothing is asked of it: " << outcome.err;
  outcome = call("exit 0", "{");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err, "headgate: config.json is no JSON\n");
}

// For any bad input: exit status 1, one sentence, and nothing on stdout.
TEST(HeadgateOciApply, RefusesBadInputWithOneSentence) {
  const Directory directory("/tmp");
  const auto apply = [&](const std::string& requests, const std::string& config, const std::string& options) {
    std::ofstream(directory.path() + "/request") << requests;
    std::ofstream(directory.path() + "/config") << config;
    fs::create_directories(directory.path() + "/cdi");
    return outcome_of({"/usr/bin/env", "PATH=/usr/bin:/bin", "/bin/sh", "-c",
                       std::string(HEADGATE_OCI) + " apply " + options + " < " + directory.path() + "/config"});
  };
  const std::string usual = "--request " + directory.path() + "/request --cdi-dir " + directory.path() + "/cdi";
  const std::string one = R"([{"Driver":"cdi","DeviceIDs":["v/c=a"]}])";
  struct Row {
    std::string requests, config, options, says;
  };
  const std::string deep = std::string(10'000, '[') + std::string(10'000, ']');
  const Row rows[] = {
      {one, "{}", usual, "CDI device injection failed: unresolvable CDI devices v/c=a"},
      {one, R"({"process":)", usual, "config.json is no JSON"},
      {one, deep, usual, "config.json is nested more than 64 deep"},
      {one, std::string(10 << 20, ' '), usual, "config.json is longer than 4 MiB"},
      {one, R"({"hooks":{"prestart":7}})", usual, "config.json: hooks.prestart: is no list"},
      {one, R"({"process":{"env":[7]}})", usual, "config.json: process.env[0]: is no text"},
      {one, R"({"a":1,"a":2})", usual, "config.json has the field 'a' twice"},
      {R"([{"Count":-1,"DeviceIDs":["0"]}])", "{}", usual, "could not select device driver \"\" with capabilities: []"},
      {R"([{"Count":99999}])", "{}", usual, "DeviceRequests[0].Count: is no count of devices"},
      {R"([{"DeviceIDs":["\u0007"]}])", "{}", usual, "DeviceRequests[0].DeviceIDs[0]: '?' has control characters"},
      {"{", "{}", usual, "DeviceRequests is no JSON"},
      {one, "{}", usual + " --no-cdi", "--no-cdi and --cdi-dir exclude each other"},
      {one, "{}", "", "--request names no file"},
      {one, "{}", "--request /absent", "reading /absent: No such file or directory"},
      {one, "{}", usual + "/absent", "cannot read the directory"},
  };
  for (const Row& row : rows) {
    const Outcome outcome = apply(row.requests, row.config, row.options);
    EXPECT_EQ(outcome.status, 1) << row.says;
    EXPECT_EQ(outcome.out, "") << row.says;
    EXPECT_TRUE(outcome.err.starts_with("headgate: " + row.says)) << row.says << " but " << outcome.err;
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  }
  std::ofstream(directory.path() + "/cdi/a.json")
      << R"({"cdiVersion":"0.5.0","kind":"v/c","devices":[{"name":"a","containerEdits":{"env":["A=b"]}}]})";
  const Outcome good = apply(one, R"({"x":[1]})", usual);
  EXPECT_EQ(good.status, 0) << good.err;
  EXPECT_EQ(Json::parse(good.out), Json::parse(R"({"x":[1],"process":{"env":["A=b"]}})"));
  EXPECT_EQ(good.err, "");
}

}  // namespace
}  // namespace headgate::e2e
