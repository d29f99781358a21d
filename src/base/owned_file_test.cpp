#include "base/owned_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

namespace headgate {
namespace {

std::string refusal(uid_t owner, mode_t mode, nlink_t names = 1) {
  struct stat facts{};
  facts.st_uid = owner;
  facts.st_mode = mode;
  facts.st_nlink = names;
  const auto checked = check_owned("/var/lib/x", facts);
  return checked ? "" : checked.error().message;
}

TEST(OwnedFile, FilesOfUsAndRootAreAccepted) {
  EXPECT_EQ(refusal(::geteuid(), S_IFREG | 0600), "");
  EXPECT_EQ(refusal(0, S_IFREG | 0644), "");
  EXPECT_EQ(refusal(::geteuid(), S_IFDIR | 0755, 5), "") << "a directory has a name for each below it";
}

TEST(OwnedFile, FilesWritableByOthersAreRefusedWithAReason) {
  EXPECT_TRUE(refusal(4000001, S_IFREG | 0600).contains("it belongs to 4000001")) << refusal(4000001, S_IFREG | 0600);
  EXPECT_TRUE(refusal(::geteuid(), S_IFREG | 0666).contains("others can write it (mode 0666)"));
  EXPECT_TRUE(refusal(::geteuid(), S_IFDIR | 0775).contains("others can write it (mode 0775)"));
  EXPECT_TRUE(refusal(::geteuid(), S_IFDIR | 01777).contains("others can write it (mode 1777)"));
  EXPECT_TRUE(refusal(::geteuid(), S_IFREG | 0600, 2).contains("a second name"));
}

}  // namespace
}  // namespace headgate
