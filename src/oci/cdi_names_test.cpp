#include "oci/cdi_document.hpp"

#include <gtest/gtest.h>

namespace headgate::oci {
namespace {

TEST(DeviceName, BeginsAndEndsWithALetterOrADigit) {
  for (const char* good : {"a", "0", "a_b", "train-7", "alice.notebook", "GPU-9c2f", "0:1", "a::b"})
    EXPECT_TRUE(is_device_name(good)) << good;
  for (const char* bad : {"", "_a", "-a", ".a", ":a", "a_", "a-", "a.", "a:", "a/b", "a b", "a=b", "\xc3\xa9"})
    EXPECT_FALSE(is_device_name(bad)) << bad;
}

TEST(Kind, IsAVendorAndAClassThatBeginWithLetters) {
  for (const char* good : {"headgate.io/share", "nvidia.com/gpu", "a/b", "a_1/b-1", "a/b.c"})
    EXPECT_TRUE(is_kind(good)) << good;
  for (const char* bad : {"", "/", "a", "a/", "/b", "1a/b", "a/1b", "a./b", "a/b-", "a/b/c", "a:b/c", "a /b"})
    EXPECT_FALSE(is_kind(bad)) << bad;
}

}  // namespace
}  // namespace headgate::oci
