#include "mps/places.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mps/test_mps.hpp"

namespace headgate::mps {
namespace {

TEST(MpsPlaces, LieByUuidAndUserBelowTheBase) {
  const auto places = places_of("/run/headgate/mps", {kTestUuid, 1000});
  ASSERT_TRUE(places) << places.error().message;
  EXPECT_EQ(places->pipe, std::string("/run/headgate/mps/") + kTestUuid + "/1000/pipe");
  EXPECT_EQ(places->log, std::string("/run/headgate/mps/") + kTestUuid + "/1000/log");
}

TEST(MpsPlaces, RefuseAPathThatIsTooLongForASocket) {
  const std::size_t around = std::string("/").size() + std::string(kTestUuid).size() + std::string("/0/pipe").size() +
                             std::string("/control_privileged").size();
  EXPECT_TRUE(places_of("/" + std::string(107 - around - 1, 'x'), {kTestUuid, 0}));
  const auto refused = places_of("/" + std::string(108 - around - 1, 'x'), {kTestUuid, 0});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("108 bytes"), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().message.find("at most 107"), std::string::npos) << refused.error().message;
}

TEST(MpsPlaces, RefuseAnInvalidUuid) {
  for (const char* uuid : {"", "..", "GPU-1/../../etc", "GPU 1"}) EXPECT_FALSE(places_of("/run", {uuid, 0})) << uuid;
}

TEST(MpsPlaces, LetOthersReachThePipeAndNotTheLog) {
  const MpsFolder folder;
  const Places places = folder.places();
  const auto made = make_places(folder.base(), places);
  ASSERT_TRUE(made) << made.error().message;
  const auto mode = [](const std::string& path) {
    struct stat facts{};
    return ::stat(path.c_str(), &facts) == 0 ? facts.st_mode & 07777 : 0;
  };
  EXPECT_EQ(mode(places.directory), 0711u);
  EXPECT_EQ(mode(places.pipe), 01777u);
  EXPECT_EQ(mode(places.log), 0700u);
  EXPECT_TRUE(make_places(folder.base(), places)) << "what is there already is taken";
}

TEST(MpsPlaces, RefuseADirectoryThatOthersOwnOrMayWrite) {
  const MpsFolder folder;
  const Places places = folder.places();
  ASSERT_TRUE(make_places(folder.base(), places));
  ::chmod(places.directory.c_str(), 0777);
  EXPECT_NE(make_places(folder.base(), places).error().message.find("others may write"), std::string::npos);
  ::chmod(places.directory.c_str(), 0711);
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chown(places.pipe.c_str(), 12345, 12345), 0);
  EXPECT_NE(make_places(folder.base(), places).error().message.find("belongs to uid 12345"), std::string::npos);
}

TEST(MpsPlaces, GiveTheToolNoVariableOfATenant) {
  ::setenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=1M", 1);
  ::setenv("LD_PRELOAD_NOT", "kept", 1);
  const auto variables = tool_environment({"/d", "/d/pipe", "/d/log"}, kTestUuid);
  ::unsetenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
  ::unsetenv("LD_PRELOAD_NOT");
  const auto has = [&](const std::string& variable) {
    return std::ranges::find(variables, variable) != variables.end();
  };
  EXPECT_TRUE(has("CUDA_MPS_PIPE_DIRECTORY=/d/pipe"));
  EXPECT_TRUE(has("CUDA_MPS_LOG_DIRECTORY=/d/log"));
  EXPECT_TRUE(has(std::string("CUDA_VISIBLE_DEVICES=") + kTestUuid));
  EXPECT_TRUE(has("LD_PRELOAD_NOT=kept"));
  EXPECT_FALSE(has("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1M"));
}

}  // namespace
}  // namespace headgate::mps
