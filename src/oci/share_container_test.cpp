#include "oci/share_container.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "oci/share_device.hpp"

namespace headgate::oci {
namespace {

ContainerConfig of(const std::string& text) {
  auto config = ContainerConfig::read(text);
  EXPECT_TRUE(config) << text << ": " << config.error().message;
  return *config;
}

std::string env_and_hook(const std::string& env) {
  return R"({"process":{"env":[)" + env +
         R"(]},"hooks":{"prestart":[{"path":"/usr/bin/nvidia-container-runtime-hook"}]}})";
}

std::string chosen(const std::string& text, const ShareRules& rules = {}) {
  const auto choice = choose_share(of(text), rules);
  return choice ? choice->share : choice.error().message;
}

TEST(ShareChoice, TakesTheAnnotation) {
  EXPECT_EQ(chosen(R"({"annotations":{"headgate.io/share":"a"}})"), "a");
  EXPECT_EQ(chosen("{}"), "");
  EXPECT_EQ(chosen(R"({"annotations":{"headgate.io/share":""}})"), "");
  EXPECT_EQ(chosen(R"({"annotations":{"headgate.io/share":"../a"}})"), "'../a' is no name of a share");
}

TEST(ShareChoice, TakesADeviceRequestOnlyBesideTheEnginesHook) {
  EXPECT_EQ(chosen(env_and_hook(R"("NVIDIA_VISIBLE_DEVICES=headgate.io/share=a")")), "a");
  EXPECT_EQ(chosen(R"({"process":{"env":["NVIDIA_VISIBLE_DEVICES=headgate.io/share=a"]}})"), "")
      << "an image sets that too";
  EXPECT_EQ(chosen(env_and_hook(R"("NVIDIA_VISIBLE_DEVICES=headgate.io/share=a","NVIDIA_VISIBLE_DEVICES=all")")), "")
      << "the engine's comes after the image's";
  EXPECT_EQ(chosen(env_and_hook(R"("NVIDIA_VISIBLE_DEVICES=headgate.io/share=a,headgate.io/share=b")")),
            "the container asks for the shares 'a' and 'b'");
  EXPECT_EQ(chosen(env_and_hook(R"("NVIDIA_VISIBLE_DEVICES=headgate.io/share=a,headgate.io/share=a")")), "a");
  EXPECT_EQ(chosen(env_and_hook(R"("NVIDIA_VISIBLE_DEVICES=0,headgate.io/share=a")")),
            "the container asks for the share 'a' and for other GPUs");
}

TEST(ShareChoice, TakesTheEnvironmentOnlyIfTheNodeAllowsIt) {
  const std::string text = R"({"process":{"env":["HEADGATE_SHARE=a"]}})";
  EXPECT_EQ(chosen(text), "");
  EXPECT_EQ(chosen(text, {.from_environment = true}), "a");
}

TEST(ShareChoice, KnowsWhatAnEngineHasMounted) {
  const std::string mounts = R"("mounts":[{"destination":"/run/headgate/share","source":"/run/headgate/shares/a"}])";
  const auto choice = choose_share(of("{" + mounts + "}"), {});
  ASSERT_TRUE(choice);
  EXPECT_EQ(*choice, (ShareChoice{.share = "a", .by = AskedBy::engine}));
  EXPECT_EQ(chosen("{" + mounts + R"(,"annotations":{"headgate.io/share":"b"}})"),
            "the container asks for the shares 'a' and 'b'");
}

TEST(ShareChoice, TreatsAGpuWithoutAShareAsConfigured) {
  const std::string hooked = env_and_hook(R"("NVIDIA_VISIBLE_DEVICES=all")");
  const std::string node = R"({"linux":{"devices":[{"path":"/dev/nvidia0"}]}})";
  for (const std::string& gpu : {hooked, node}) {
    EXPECT_EQ(chosen(gpu), "");
    EXPECT_EQ(chosen(gpu, {.gpu_without_share = "refuse"}),
              "the container has a GPU and is in no share, which this node refuses");
    EXPECT_EQ(chosen(gpu, {.gpu_without_share = "rest"}), "rest");
  }
  const std::string image = R"({"process":{"env":["NVIDIA_VISIBLE_DEVICES=all"]}})";
  EXPECT_EQ(chosen(image, {.gpu_without_share = "refuse"}), "") << "no program gives it a GPU";
  EXPECT_NE(chosen(image, {.gpu_without_share = "refuse", .next_is_nvidias = true}), "");
  for (const char* none : {"void", "none", ""})
    EXPECT_EQ(
        chosen(env_and_hook(R"("NVIDIA_VISIBLE_DEVICES=)" + std::string(none) + "\""), {.gpu_without_share = "refuse"}),
        "");
  EXPECT_EQ(chosen(R"({"linux":{"devices":[{"path":"/dev/nvidiactl"},{"path":"/dev/nvidia"}]}})",
                   {.gpu_without_share = "refuse"}),
            "");
}

TEST(ShareChoice, RefusesAPrivilegedContainer) {
  const auto with_rules = [](const std::string& rules) {
    return chosen(R"({"annotations":{"headgate.io/share":"a"},"linux":{"resources":{"devices":[)" + rules + "]}}}");
  };
  EXPECT_EQ(with_rules(R"({"allow":true,"access":"rwm"})"),
            "the container is privileged, so the share 'a' cannot hold it");
  EXPECT_EQ(with_rules(R"({"allow":false,"access":"rwm"})"), "a");
  EXPECT_EQ(with_rules(R"({"allow":true,"type":"a","major":-1,"minor":-1},{"allow":false})"), "a");
  EXPECT_EQ(with_rules(R"({"allow":false},{"allow":true,"type":"c","major":1,"minor":3,"access":"rwm"})"), "a");
}

Document share_a() {
  Edits driver;
  driver.device_nodes = {{.path = "/dev/nvidia1"}};
  return share_document(
      {.share = "a", .directory = "/shares/a", .limiter = "/l", .preload_list = "/p", .driver = driver});
}
Result<HostNode> some_gpu(const std::string&) { return HostNode{.type = 'c', .major = 195, .minor = 1, .mode = 0666}; }

TEST(InShare, ReplacesNvidiasSetupByTheShares) {
  const auto after = in_share(of(R"({"process":{"env":["NVIDIA_VISIBLE_DEVICES=all","NVIDIA_GPU_MEMORY_LIMIT=1","A=b"]},
    "hooks":{"prestart":[{"path":"/usr/bin/nvidia-container-runtime-hook"},{"path":"/mine"}]},"x":1})"),
                              share_a(), AskedBy::annotation, some_gpu);
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_EQ(after->environment(), (std::vector<std::string>{"A=b", "NVIDIA_VISIBLE_DEVICES=void"}));
  EXPECT_EQ(after->json()["hooks"], Json::parse(R"({"prestart":[{"path":"/mine"}]})"));
  EXPECT_EQ(*after->source_of("/run/headgate/share"), "/shares/a");
  EXPECT_EQ(*after->source_of("/etc/ld.so.preload"), "/p");
  EXPECT_EQ(after->json()["linux"]["devices"][0]["path"], "/dev/nvidia1");
  EXPECT_EQ(after->json()["x"], 1);
}

TEST(InShare, RefusesGpusThatAreNotTheShares) {
  const auto after = in_share(of(R"({"linux":{"devices":[{"path":"/dev/nvidia1"},{"path":"/dev/nvidia0"}]}})"),
                              share_a(), AskedBy::engine, some_gpu);
  ASSERT_FALSE(after);
  EXPECT_EQ(after.error().message, "the container has /dev/nvidia0, which is not of its share");
  EXPECT_FALSE(in_share(of("{}"), Document{}, AskedBy::annotation, some_gpu));
}

TEST(InShare, KeepsWhatAnEngineHasMade) {
  const ContainerConfig before = of(R"({"process":{"env":["NVIDIA_VISIBLE_DEVICES=void"]},"mounts":[
    {"destination":"/run/headgate/share","source":"/shares/a"},{"destination":"/etc/ld.so.preload","source":"/p"}]})");
  auto after = in_share(before, share_a(), AskedBy::engine, some_gpu);
  ASSERT_TRUE(after);
  EXPECT_EQ(*after, before);
  replace_preload_list(*after, "/merged");
  EXPECT_EQ(*after->source_of("/etc/ld.so.preload"), "/merged");
  replace_preload_list(*after, "");
  EXPECT_FALSE(after->source_of("/etc/ld.so.preload"));
}

}  // namespace
}  // namespace headgate::oci
