#include "runtime/hook.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace headgate::runtime {
namespace {

namespace fs = std::filesystem;

// The other tests of the hook are end-to-end tests (NvidiasHook), which cannot wait for its timeout of a minute.
TEST(NvidiasHookInFrontOfOurs, IsKilledIfItHangs) {
  std::string root = (fs::temp_directory_path() / "headgate-hook-XXXXXX").string();
  ASSERT_NE(::mkdtemp(root.data()), nullptr);
  const std::string program = root + "/" + std::string(kNvidiasHook);
  std::ofstream(program) << "#!/bin/sh\nexec sleep 600\n";
  fs::permissions(program, fs::perms::owner_all);
  std::ofstream(root + "/config.json") << R"({"process":{"env":["NVIDIA_VISIBLE_DEVICES=all"]},
      "hooks":{"prestart":[{"path":"/x/nvidia-container-runtime-hook"}]}})";
  const char* const before = ::getenv("PATH");
  const std::string path = before == nullptr ? "" : before;
  ::setenv("PATH", (root + ":" + path).c_str(), 1);
  const auto ran = run_hook(
      R"({"id":"c","pid":4711,"bundle":")" + root + "\"}",
      {.as_nvidias = true, .words = {"prestart"}, .configuration = {}, .patience = std::chrono::milliseconds(50)});
  ::setenv("PATH", path.c_str(), 1);
  fs::remove_all(root);
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().message, "NVIDIA's hook did not end within 0 s");
}

}  // namespace
}  // namespace headgate::runtime
