#include "runtime/runtime.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "oci/share_device.hpp"
#include "runtime/share_files.hpp"

namespace headgate::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfigOfShareA =
    R"({"annotations":{"headgate.io/share":"a"},"process":{"args":["/bin/true"]},"root":{"path":"rootfs"}})";

// A bundle, and a share a with its CDI file and directory.
class EditBundle : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(root_.data()), nullptr);
    for (const char* each : {"/bundle/rootfs/etc", "/cdi", "/shares/a"}) fs::create_directories(root_ + each);
    settings_.cdi_directory = root_ + "/cdi";
    put(file(), text_of_share("a", root_ + "/shares/a"));
    put(config(), kConfigOfShareA);
  }
  void TearDown() override { fs::remove_all(root_); }

  [[nodiscard]] std::string file() const { return root_ + "/cdi/headgate.io-share_a.json"; }
  [[nodiscard]] std::string config() const { return root_ + "/bundle/config.json"; }
  static void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
  [[nodiscard]] static std::string text_at(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  [[nodiscard]] static std::string text_of_share(const std::string& name, const std::string& directory) {
    return oci::to_json(oci::share_document(
        {.share = name, .directory = directory, .limiter = "/l", .preload_list = "/p", .driver = {}}));
  }
  [[nodiscard]] Result<void> edit() const {
    Arguments arguments;
    arguments.command = "create", arguments.bundle = root_ + "/bundle";
    return edit_bundle(arguments, settings_);
  }
  // Returns the message without paths, after checking that config.json is unchanged and has no new files beside it.
  [[nodiscard]] std::string refusal() const {
    const std::string before = text_at(config());
    const auto edited = edit();
    EXPECT_EQ(text_at(config()), before);
    EXPECT_EQ(std::distance(fs::directory_iterator(root_ + "/bundle"), {}), 2) << "config.json and rootfs";
    if (edited) return "";
    std::string message = edited.error().message;
    for (auto at = message.find(root_); at != std::string::npos; at = message.find(root_))
      message.erase(at, root_.size());
    return message;
  }

  std::string root_ = (fs::temp_directory_path() / "headgate-bundle-XXXXXX").string();
  Settings settings_;
};

TEST_F(EditBundle, PutsTheContainerIntoItsShare) {
  put(root_ + "/bundle/rootfs/etc/ld.so.preload", "/own.so\n");
  ::chmod(config().c_str(), 0640);
  const auto edited = edit();
  ASSERT_TRUE(edited) << edited.error().message;
  EXPECT_TRUE(text_at(config()).contains("\"NVIDIA_VISIBLE_DEVICES=void\""));
  EXPECT_EQ(text_at(root_ + "/bundle/headgate-ld.so.preload"), "/own.so\n/run/headgate/libheadgate.so\n");
  EXPECT_EQ(fs::status(config()).permissions(), fs::perms(0640));
  const std::string once = text_at(config());
  ASSERT_TRUE(edit());
  EXPECT_EQ(text_at(config()), once) << "the engine may ask again";
}

TEST_F(EditBundle, IsRefusedIfTheSharesFileIsInvalid) {
  const std::string missing = "there is no share 'a' for containers: /cdi/headgate.io-share_a.json is missing";
  fs::remove(file());
  EXPECT_EQ(refusal(), missing);
  fs::create_directory(file());
  EXPECT_EQ(refusal(), "/cdi/headgate.io-share_a.json: /cdi/headgate.io-share_a.json is no file");
  fs::remove(file());
  ASSERT_EQ(::mkfifo(file().c_str(), 0644), 0);
  EXPECT_EQ(refusal(), "/cdi/headgate.io-share_a.json: /cdi/headgate.io-share_a.json is no file");
  fs::remove(file());
  const std::pair<std::string, std::string> texts[] = {
      {"", "is no JSON"},
      {"{}", "has no 'cdiVersion'"},
      {R"({"cdiVersion":"9.9.9","kind":"v/c","devices":[{"name":"a","containerEdits":{"env":["A=b"]}}]})",
       "cdiVersion: '9.9.9' is no version of CDI"},
      {R"({"cdiVersion":"0.5.0","kind":"v/c","x":1,"devices":[{"name":"a","containerEdits":{"env":["A=b"]}}]})",
       "has an unknown field 'x'"}};
  for (const auto& [text, says] : texts) {
    put(file(), text);
    EXPECT_EQ(refusal(), "/cdi/headgate.io-share_a.json: " + says);
  }
  for (const std::string& other : {text_of_share("b", root_ + "/shares/a"),
                                   std::string(R"({"cdiVersion":"0.5.0","kind":"headgate.io/share",)"
                                               R"("devices":[{"name":"a","containerEdits":{"env":["A=b"]}}]})")}) {
    put(file(), other);
    EXPECT_EQ(refusal(), "/cdi/headgate.io-share_a.json is not the CDI file of the share 'a'");
  }
  put(file(), text_of_share("a", root_ + "/shares/gone"));
  EXPECT_EQ(refusal(), "the share 'a' is gone: there is no /shares/gone");
}

TEST_F(EditBundle, IsRefusedIfConfigJsonIsInvalid) {
  for (const auto& [text, says] :
       {std::pair<std::string, std::string>{R"({"annotations":)", "config.json is no JSON"},
        {std::string(70, '[') + std::string(70, ']'), "config.json is nested more than 64 deep"},
        {R"({"annotations":{"headgate.io/share":"a/b"}})", "'a/b' is no name of a share"}}) {
    put(config(), text);
    EXPECT_EQ(refusal(), says);
  }
  put(config(), std::string(5 << 20, ' '));
  EXPECT_TRUE(refusal().starts_with("config.json: /bundle/config.json is longer than"));
}

TEST_F(EditBundle, IsRefusedUnderARuntimeWithASeparateKernel) {
  for (const char* name : {"runsc", "kata-runtime"}) {
    settings_.program = std::string("/usr/local/bin/") + name;
    settings_.image = ImagePolicy::refuse;
    EXPECT_EQ(refusal(),
              "the share 'a' cannot hold this image: its runtime, " + std::string(name) + ", gives it its own kernel");
    settings_.image = ImagePolicy::warn;
    EXPECT_TRUE(edit());
    EXPECT_FALSE(text_at(config()).contains("ld.so.preload"));
    put(config(), kConfigOfShareA);
  }
}

// A share's file without a daemon is enough, and a mistake in the settings stops only what they would decide.
TEST_F(EditBundle, FollowsTheSettings) {
  settings_.problem = "config.toml:1: unknown key";
  EXPECT_TRUE(edit());
  put(config(), R"({"process":{"args":["/bin/true"]}})");
  EXPECT_EQ(refusal(), "") << "no GPU, no share";
  put(config(), R"({"linux":{"devices":[{"path":"/dev/nvidia0"}]}})");
  EXPECT_EQ(refusal(), "config.toml:1: unknown key");
  settings_.problem.clear();
  settings_.rules.gpu_without_share = "refuse";
  EXPECT_EQ(refusal(), "the container has a GPU and is in no share, which this node refuses");
}

}  // namespace
}  // namespace headgate::runtime
