#include "config/config.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace headgate::config {
namespace {

Reading of(std::string_view text) {
  Reading reading = defaults();
  read_text(text, "config.toml", reading);
  return reading;
}

TEST(Config, AnEmptyFileIsValidAndEveryKeyHasADefault) {
  const Reading reading = of("");
  EXPECT_TRUE(reading.errors.empty());
  EXPECT_EQ(reading.config["defaults.fail_policy"], (Setting{"defaults.fail_policy", "open", "default"}));
  EXPECT_EQ(reading.config["sim.profile"].value, "h200");
  EXPECT_EQ(reading.config["defaults.mem"].value, "");
}

// deploy/headgate.toml, which the package installs as an example.
TEST(Config, TheExampleHasEachKeyWithItsDefault) {
  std::ifstream in(EXAMPLE_CONFIG);
  std::string section, all, changed, line;
  std::vector<std::string> there;
  while (std::getline(in, line)) {
    all += line + "\n";
    if (line.starts_with('[')) section = line.substr(1, line.size() - 2) + ".";
    const auto equals = line.find(" = ");
    const bool setting = line.starts_with('#') && equals != std::string::npos && !line.starts_with("# ");
    if (setting) there.push_back(section + line.substr(1, equals - 1));
    // Settings with an empty default stay commented out, because few keys accept an empty value.
    changed += (setting && !line.ends_with("\"\"") && !line.ends_with("[]") ? line.substr(1) : line) + "\n";
  }
  EXPECT_TRUE(of(all).errors.empty());
  const Reading reading = of(changed);
  EXPECT_TRUE(reading.errors.empty()) << reading.errors.front().message;
  for (const Key& key : keys()) {
    EXPECT_EQ(std::ranges::count(there, key.name), 1) << key.name;
    EXPECT_EQ(reading.config[key.name].value, key.fallback) << key.name;
  }
  EXPECT_EQ(there.size(), keys().size());
}

TEST(Config, EachValueNamesItsLine) {
  const Reading reading = of("[defaults]\nmem = '8GiB'\n\n[sim]\nprofile = \"tiny\"\n");
  EXPECT_TRUE(reading.errors.empty());
  EXPECT_EQ(reading.config["defaults.mem"], (Setting{"defaults.mem", "8GiB", "config.toml:2"}));
  EXPECT_EQ(reading.config["sim.profile"].origin, "config.toml:5");
}

TEST(Config, AnUnknownProfileAndAPublicAddressAreMistakes) {
  const Reading reading = of("[sim]\nprofile = 'h2000'\n");
  ASSERT_EQ(reading.errors.size(), 1u);
  EXPECT_EQ(reading.errors[0].message, "config.toml:2: sim.profile = 'h2000' names no profile");
  EXPECT_EQ(reading.errors[0].hint, "accepted: h200, h200-cuda13, h200-r615, l40s-x2, tiny, or the path of a profile");
  for (const char* profile : {"tiny", "./lab", "lab.toml"})
    EXPECT_TRUE(of("sim.profile = '" + std::string(profile) + "'").errors.empty()) << profile;
  for (const char* inside : {"127.0.0.1:1", "127.9.0.1:1", "[::1]:1", "::1:1"})
    EXPECT_TRUE(may_listen("it listens on", inside, false)) << inside;
  for (const char* outside : {"0.0.0.0:1", "[::]:1", "::1:2:1", "lab:1", "10.0.0.1:1"}) {
    EXPECT_TRUE(may_listen("it listens on", outside, true)) << outside;
    EXPECT_EQ(may_listen("it listens on", outside, false).error().message,
              "it listens on '" + std::string(outside) + "' can be reached from outside, and there is no token");
  }
}

TEST(Config, EachMistakeHasFileLineKeyValueAndWhatIsAccepted) {
  const Reading reading = of("[defaults]\nmem = '0m'\ncompute = 50\nlog = 'loud'\nmemory = '8G'\n");
  ASSERT_EQ(reading.errors.size(), 4u);
  std::vector<std::string> messages;
  for (const Error& error : reading.errors) messages.push_back(error.message);
  const auto said = [&](std::string_view text) { return std::ranges::find(messages, text) != messages.end(); };
  EXPECT_TRUE(said("config.toml:2: defaults.mem = '0m' is zero"));
  EXPECT_TRUE(said("config.toml:3: defaults.compute = 50 is not a text in quotes"));
  EXPECT_TRUE(said("config.toml:4: defaults.log = 'loud' is not understood"));
  EXPECT_TRUE(said("config.toml:5: unknown key 'defaults.memory'"));
  for (const Error& error : reading.errors) EXPECT_FALSE(error.hint.empty()) << error.message;
}

// `headgate config check` checks no more than this, so a configuration that passes must not stop the daemon's start.
TEST(Config, KeysOfTheDaemonAreCheckedToo) {
  const Reading good =
      of("[events]\nkeep = '12h'\n[metrics]\nfile = '/var/x'\ninterval = '1m'\n[node]\nlisten = '[::1]:9471'\n");
  EXPECT_TRUE(good.errors.empty());
  for (const char* bad : {"events.rows = 999", "events.rows = 1000001", "events.keep = 'forever'", "events.keep = '0d'",
                          "events.keep = '36501d'", "metrics.interval = '0s'", "metrics.interval = 's'",
                          "metrics.file = 'var/x'", "metrics.job_directory = 'x'", "node.listen = '127.0.0.1:999999'",
                          "node.listen = 'localhost'", "node.listen = ':80'", "node.listen = 'localhost:80'",
                          "node.listen = '127.evil.example:80'", "node.listen = '127.0.0.1.5:80'"}) {
    const Reading reading = of(bad);
    ASSERT_EQ(reading.errors.size(), 1u) << bad;
    EXPECT_TRUE(reading.errors[0].message.starts_with("config.toml:1: ")) << reading.errors[0].message;
    EXPECT_TRUE(reading.errors[0].hint.starts_with("accepted: ")) << reading.errors[0].hint;
  }
  EXPECT_EQ(read("/", true).errors.at(0).message, "/ is no file");
  // Whatever the file's length, no more than that is kept in memory.
  EXPECT_EQ(read("/dev/zero", true).errors.at(0).message,
            "/dev/zero is longer than 1 MiB, so it is no configuration of headgate");
}

TEST(Config, AnUnknownKeyNamesASimilarOne) {
  for (const auto& [text, meant] :
       {std::pair{"[node]\ncaller = 'all'", "did you mean node.callers? keys of [node]: nvml, "},
        {"callers = 'all'", "did you mean node.callers? tables: arbiter, audit, cards, "},
        {"[defaults]\nreserve = '1GiB'", "did you mean node.reserve? keys of [defaults]: mem, "},
        {"[nodes]\ncallers = 'all'", "did you mean node.callers? tables: arbiter, "},
        {"[audit]\nelephants = 'x'", "keys of [audit]: policy, exempt"}}) {
    const Reading reading = of(text);
    ASSERT_EQ(reading.errors.size(), 1u) << text;
    EXPECT_TRUE(reading.errors[0].hint.starts_with(meant)) << reading.errors[0].hint;
  }
}

TEST(Config, InvalidTomlIsNamedWithItsLineAndAnExample) {
  const Reading reading = of("[defaults]\nmem = \n");
  ASSERT_EQ(reading.errors.size(), 1u);
  EXPECT_NE(reading.errors[0].hint.find("a key and its value, a text in quotes"), std::string::npos);
  EXPECT_TRUE(reading.errors[0].message.starts_with("config.toml:2: ")) << reading.errors[0].message;
}

TEST(Config, DropInsOverrideTheFileInNameOrder) {
  namespace fs = std::filesystem;
  std::string directory = (fs::temp_directory_path() / "headgate-config-XXXXXX").string();
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  fs::create_directory(directory + "/conf.d");
  std::ofstream(directory + "/config.toml") << "[defaults]\nmem='1G'\nlog='warn'\n";
  std::ofstream(directory + "/conf.d/20-b.toml") << "defaults.mem='3G'\n";
  std::ofstream(directory + "/conf.d/10-a.toml") << "defaults.mem='2G'\n";
  std::ofstream(directory + "/conf.d/99-no.conf") << "nonsense";
  const Reading reading = read(directory + "/config.toml", true);
  EXPECT_TRUE(reading.errors.empty());
  EXPECT_EQ(reading.config["defaults.mem"], (Setting{"defaults.mem", "3G", directory + "/conf.d/20-b.toml:1"}));
  EXPECT_EQ(reading.config["defaults.log"].value, "warn");
  EXPECT_EQ(read(directory + "/missing.toml", true).errors.size(), 1u);
  fs::remove_all(directory);
}

// Uses symbolic links to themselves, because permissions do not stop root; other users see the same with a directory
// that they may not read.
TEST(Config, AnUnreadableFileIsAMistakeNotAMissingOne) {
  namespace fs = std::filesystem;
  std::string directory = (fs::temp_directory_path() / "headgate-config-XXXXXX").string();
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  const std::string file = directory + "/config.toml", folder = directory + "/conf.d";
  EXPECT_TRUE(read(file, false).errors.empty()) << "none is needed";
  fs::create_symlink("conf.d", folder);
  ASSERT_EQ(read(file, false).errors.size(), 1u);
  EXPECT_TRUE(read(file, false).errors[0].message.starts_with("cannot look at " + folder + ": "));
  fs::remove(folder);
  std::ofstream(folder) << "defaults.mem='1G'";
  EXPECT_EQ(read(file, false).errors.size(), 1u) << "conf.d is a directory";
  fs::remove(folder);
  fs::create_symlink("config.toml", file);
  for (const bool must_exist : {false, true}) {
    const Reading reading = read(file, must_exist);
    ASSERT_EQ(reading.errors.size(), 1u);
    EXPECT_TRUE(reading.errors[0].message.starts_with("cannot look at " + file + ": ")) << reading.errors[0].message;
    EXPECT_EQ(reading.errors[0].code, ErrorCode::denied);
  }
  fs::remove_all(directory);
}

TEST(Config, CustomCardsAreReadAndBadOnesNamed) {
  Reading reading = defaults();
  read_text("[cards]\n\"RTX PRO 6000\" = 503.8\n\"L40S\" = 181\n", "a.toml", reading);
  EXPECT_TRUE(reading.errors.empty());
  EXPECT_EQ(reading.config.cards(), (GpuThroughput{{"L40S", 181}, {"RTX PRO 6000", 503.8}}));
  EXPECT_EQ(reading.config["cards.L40S"].origin, "a.toml:3");
  for (const char* bad : {"0", "-1", "\"40\"", "nan", "inf", "1e9", "[1]"}) {
    Reading one = defaults();
    read_text("[cards]\nX = " + std::string(bad) + "\n", "b.toml", one);
    ASSERT_EQ(one.errors.size(), 1u) << bad;
    EXPECT_TRUE(one.errors[0].message.starts_with("b.toml:2: cards.X = ")) << one.errors[0].message;
    EXPECT_TRUE(one.config.cards().empty()) << bad;
  }
}

}  // namespace
}  // namespace headgate::config
