#include "guest/ledger/pages.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "guest/ledger/account.hpp"
#include "guest/ledger/closing.hpp"

namespace headgate::ledger {
namespace {

namespace fs = std::filesystem;

class Pages : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/headgate-pages-XXXXXX";
    ASSERT_NE(::mkdtemp(path), nullptr);
    root_ = path;
    base_ = root_ + "/run";
  }
  void TearDown() override { fs::remove_all(root_); }

  static ShareGrant grant(const char* name = "research") {
    ShareGrant out;
    std::strcpy(out.name, name);
    out.device_count = 2;
    std::strcpy(out.devices[0].uuid, "GPU-11111111-2222-3333-4444-555555555555");
    out.devices[0].memory_limit_bytes = 8ull << 30;
    out.devices[0].compute_ceiling_ppm = 250'000;
    std::strcpy(out.devices[1].uuid, "GPU-aaaaaaaa-2222-3333-4444-555555555555");
    return out;
  }
  std::string file(const char* which) const { return base_ + "/shares/research/" + which; }
  static std::string words(const PageFault& fault) {
    char text[512];
    explain(fault, text, sizeof text);
    return text;
  }
  PageFault open() {
    SharePages pages;
    const PageFault fault = open_share(base_.c_str(), "research", Access::tenant, pages);
    close_pages(pages);
    return fault;
  }
  void make() {
    SharePages pages;
    ASSERT_EQ(words(create_share(base_.c_str(), grant(), Access::owner, pages)), "nothing is wrong");
    close_pages(pages);
  }
  template <typename T>
  void scribble(const char* which, std::size_t offset, T value) {
    std::fstream out(file(which), std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(static_cast<std::streamoff>(offset));
    out.write(reinterpret_cast<const char*>(&value), sizeof value);
  }

  std::string root_;
  std::string base_;
};

TEST_F(Pages, AShareIsFoundWithTheValuesItWasCreatedWith) {
  make();
  SharePages pages;
  ASSERT_FALSE(open_share(base_.c_str(), "research", Access::tenant, pages));
  EXPECT_EQ(pages.writable_policy, nullptr);
  const ShareGrant back = grant_of(*pages.policy);
  EXPECT_STREQ(back.name, "research");
  EXPECT_EQ(back.device_count, 2u);
  EXPECT_EQ(back.devices[0].memory_limit_bytes, 8ull << 30);
  EXPECT_EQ(back.devices[0].compute_ceiling_ppm, 250'000u);
  EXPECT_EQ(find_device(*pages.policy, "GPU-aaaaaaaa-2222-3333-4444-555555555555"), 1u);
  EXPECT_EQ(find_device(*pages.policy, "GPU-b"), kMaxDevices);
  close_pages(pages);
}

TEST_F(Pages, OtherUsersCanNeitherReadNorChangeThem) {
  ::umask(0);
  make();
  EXPECT_EQ(fs::status(base_).permissions(), fs::perms(0700));
  EXPECT_EQ(fs::status(base_ + "/shares/research").permissions(), fs::perms(0700));
  // The sticky bit keeps cleaners of old files away.
  EXPECT_EQ(fs::status(file("policy")).permissions(), fs::perms(01600));
  EXPECT_EQ(fs::status(file("usage")).permissions(), fs::perms(01600));
  ::umask(022);
  fs::permissions(file("usage"), fs::perms(0620));
  EXPECT_EQ(open().error, PageError::open_permissions);
  EXPECT_EQ(words(open()), "\"usage\" has mode 0620, so others could change it; accepted is 0600: use chmod");
}

TEST_F(Pages, TruncatedPagesAreRefusedAtAnyLength) {
  make();
  for (const char* which : {"policy", "usage"}) {
    const std::uintmax_t whole = fs::file_size(file(which));
    for (const std::uintmax_t length :
         {std::uintmax_t{0}, std::uintmax_t{1}, sizeof(PageHeader) - 1, sizeof(PageHeader), std::uintmax_t{4095},
          std::uintmax_t{4096}, whole / 2, whole - 64, whole - 1, whole + 1, whole + 4096}) {
      fs::resize_file(file(which), length);
      if (length == whole) continue;
      const PageError error = open().error;
      EXPECT_EQ(error, length < whole ? PageError::truncated : PageError::wrong_size) << which << " " << length;
      fs::remove_all(base_);
      make();
    }
  }
}

TEST_F(Pages, AnotherVersionIsRefusedByNameInBothDirections) {
  make();
  scribble("usage", offsetof(PageHeader, version), kVersion + 1);
  EXPECT_EQ(words(open()), "pages are version " + std::to_string(kVersion + 1) + ", this limiter knows " +
                               std::to_string(kVersion) + ": update libheadgate.so");
  scribble("policy", offsetof(PageHeader, version), std::uint32_t{0});
  EXPECT_EQ(open().error, PageError::pages_older);
  scribble("policy", 0, std::uint64_t{1});
  EXPECT_EQ(open().error, PageError::wrong_magic);
}

TEST_F(Pages, NonsenseInsideThePagesIsRefused) {
  const struct {
    const char* which;
    std::size_t offset;
    std::uint64_t value;
    std::size_t bytes;
    PageError error;
  } cases[] = {
      {"policy", offsetof(PolicyPage, device_count), 0, 4, PageError::bad_device_count},
      {"policy", offsetof(PolicyPage, device_count), 17, 4, PageError::bad_device_count},
      {"policy", offsetof(PolicyPage, level), 9, 4, PageError::bad_level},
      {"policy", offsetof(PolicyPage, fail_policy), 2, 4, PageError::bad_fail_policy},
      {"policy", offsetof(PolicyPage, generation), 1, 8, PageError::pages_disagree},
      {"policy", offsetof(PolicyPage, share), '/', 1, PageError::bad_name},
      {"policy", offsetof(PolicyPage, share), 'x', 1, PageError::wrong_name},
      {"policy", offsetof(PolicyPage, devices), '\n', 1, PageError::bad_uuid},
      {"policy", offsetof(PolicyPage, devices) + offsetof(DevicePolicy, memory_limit_bytes), 0, 8,
       PageError::bad_memory_limit},
      {"policy", offsetof(PolicyPage, devices) + offsetof(DevicePolicy, compute_ceiling_ppm), 1'000'001, 4,
       PageError::bad_ceiling},
      {"policy", offsetof(PolicyPage, devices) + offsetof(DevicePolicy, compute_burst_ppm), 250'000, 4,
       PageError::bad_burst},
      {"policy", offsetof(PolicyPage, devices) + offsetof(DevicePolicy, compute_burst_ppm), 1'000'001, 4,
       PageError::bad_burst},
      {"policy", offsetof(PolicyPage, devices) + offsetof(DevicePolicy, compute_guarantee_ppm), 250'001, 4,
       PageError::bad_guarantee},
      {"policy", offsetof(PolicyPage, devices) + offsetof(DevicePolicy, weight), 0, 4, PageError::bad_weight},
      {"policy", offsetof(PolicyPage, devices) + offsetof(DevicePolicy, priority_class), 3, 4, PageError::bad_class},
      {"usage", offsetof(UsagePage, slot_count), 255, 4, PageError::bad_slot_count},
      {"usage", offsetof(UsagePage, device_count), 3, 4, PageError::pages_disagree},
      {"usage", offsetof(PageHeader, bytes), 64, 4, PageError::wrong_size},
  };
  for (const auto& one : cases) {
    make();
    if (one.bytes == 1) scribble(one.which, one.offset, static_cast<char>(one.value));
    else if (one.bytes == 4) scribble(one.which, one.offset, static_cast<std::uint32_t>(one.value));
    else scribble(one.which, one.offset, one.value);
    const PageFault fault = open();
    EXPECT_EQ(fault.error, one.error) << one.which << " " << one.offset << ": " << words(fault);
    fs::remove_all(base_);
  }
  make();
  for (std::size_t i = 0; i < kNameBytes; ++i) scribble("policy", offsetof(PolicyPage, share) + i, 'x');
  EXPECT_EQ(open().error, PageError::unterminated);
}

TEST_F(Pages, LinksAndForeignOwnersAreRefused) {
  make();
  fs::rename(file("usage"), root_ + "/elsewhere");
  fs::create_symlink(root_ + "/elsewhere", file("usage"));
  EXPECT_EQ(open().error, PageError::symbolic_link);
  fs::rename(base_, root_ + "/real");
  fs::create_symlink(root_ + "/real", base_);
  EXPECT_EQ(open().error, PageError::symbolic_link);
  fs::remove(base_);
  fs::rename(root_ + "/real", base_);
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_EQ(::chown((base_ + "/shares/research").c_str(), 12345, 12345), 0);
  EXPECT_EQ(open().error, PageError::foreign_owner);
}

TEST_F(Pages, AJoinerWithOtherValuesLearnsWhichDiffer) {
  SharePages first;
  SlotRef seat;
  const ShareGrant mine = grant();
  ASSERT_FALSE(enter_share(base_.c_str(), mine.name, &mine, first, seat));
  ShareGrant other = mine;
  other.devices[0].memory_limit_bytes = 4ull << 30;
  SharePages second;
  EXPECT_EQ(words(create_or_join_share(base_.c_str(), other, Access::tenant, second)),
            "the share exists with other values: memory limit of GPU-11111111-2222-3333-4444-555555555555 is 8 GiB, "
            "asked was 4 GiB; ask for the same values or use another name");
  ShareGrant swapped = mine;
  std::swap(swapped.devices[0], swapped.devices[1]);
  EXPECT_FALSE(create_or_join_share(base_.c_str(), swapped, Access::tenant, second)) << "order of devices is no value";
  close_pages(second);
  release(*first.usage, seat);
  EXPECT_FALSE(create_or_join_share(base_.c_str(), other, Access::tenant, second)) << "no process is left to be bound";
  EXPECT_EQ(grant_of(*second.policy).devices[0].memory_limit_bytes, 4ull << 30);
  close_pages(second);
  close_pages(first);
}

TEST_F(Pages, ChangedLimitsMoveTheGateEpoch) {
  SharePages pages;
  ASSERT_FALSE(create_share(base_.c_str(), grant(), Access::owner, pages));
  DeviceGrant next = grant().devices[0];
  next.compute_ceiling_ppm = 800'000;
  const std::uint32_t before = pages.policy->devices[0].gate_epoch;
  EXPECT_FALSE(set_limits(*pages.writable_policy, 0, next));
  EXPECT_EQ(pages.policy->devices[0].gate_epoch, before + 1);
  EXPECT_EQ(pages.policy->devices[0].compute_ceiling_ppm, 800'000u);
  next.memory_limit_bytes = 0;
  EXPECT_EQ(set_limits(*pages.writable_policy, 0, next).error, PageError::bad_memory_limit);
  EXPECT_EQ(set_limits(*pages.writable_policy, 5, next).error, PageError::bad_device_count);
  close_pages(pages);
}

TEST_F(Pages, ProcessesThatRaceShareOneAccount) {
  // Each holds the whole limit for a moment: if two were ever in different pages, both would get it.
  const int turns = 60;
  const int processes = 6;
  const std::string token = root_ + "/token";
  const ShareGrant mine = grant();
  std::vector<pid_t> children;
  for (int p = 0; p < processes; ++p) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int turn = 0; turn < turns; ++turn) {
        SharePages pages;
        SlotRef seat;
        if (const PageFault fault = enter_share(base_.c_str(), mine.name, &mine, pages, seat)) {
          std::fprintf(stderr, "%s\n", words(fault).c_str());
          ::_exit(2);
        }
        const std::uint64_t all = mine.devices[0].memory_limit_bytes;
        if (reserve(*pages.usage, 0, seat, all, all).ok) {
          if (const int fd = ::open(token.c_str(), O_CREAT | O_EXCL, 0600); fd < 0) ::_exit(3);
          else ::close(fd);
          ::sched_yield();
          ::unlink(token.c_str());
        }
        release(*pages.usage, seat);
        close_pages(pages);
        bool removed;
        remove_if_empty(base_.c_str(), mine.name, removed);
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "2: could not enter; 3: two held the whole limit at once";
  }
  bool removed = false;
  remove_if_empty(base_.c_str(), mine.name, removed);
  EXPECT_FALSE(fs::exists(base_ + "/shares/research"));
  for (const auto& left : fs::directory_iterator(base_ + "/shares")) EXPECT_EQ(left.path().filename(), ".lock");
}

TEST_F(Pages, AnOccupiedShareIsNotRemoved) {
  const ShareGrant mine = grant();
  SharePages pages;
  SlotRef seat;
  ASSERT_FALSE(enter_share(base_.c_str(), mine.name, &mine, pages, seat));
  bool removed = true;
  EXPECT_FALSE(remove_if_empty(base_.c_str(), mine.name, removed));
  EXPECT_FALSE(removed);
  release(*pages.usage, seat);
  close_pages(pages);
  EXPECT_FALSE(remove_if_empty(base_.c_str(), mine.name, removed));
  EXPECT_TRUE(removed);
}

TEST_F(Pages, BadNamesAndPathsAreNamedErrors) {
  SharePages pages;
  for (const char* name : {"", ".", "..", ".hidden", "a/b", "a b", "a\n"}) {
    EXPECT_EQ(create_share(base_.c_str(), grant(name), Access::owner, pages).error, PageError::bad_name) << name;
    EXPECT_EQ(open_share(base_.c_str(), name, Access::owner, pages).error, PageError::no_runtime_directory)
        << "no base yet";
  }
  EXPECT_EQ(create_share((root_ + "/no/such").c_str(), grant(), Access::owner, pages).error, PageError::no_directory);
  std::ofstream(root_ + "/plain") << "x";
  EXPECT_EQ(create_share((root_ + "/plain").c_str(), grant(), Access::owner, pages).error, PageError::not_a_file);
  fs::create_directory(root_ + "/open");
  fs::permissions(root_ + "/open", fs::perms(0777));
  EXPECT_EQ(create_share((root_ + "/open").c_str(), grant(), Access::owner, pages).error, PageError::open_permissions);
  make();
  EXPECT_EQ(create_share(base_.c_str(), grant(), Access::owner, pages).error, PageError::already_exists);
  EXPECT_EQ(words(open_share(base_.c_str(), "other", Access::tenant, pages).error == PageError::not_found
                      ? open_share(base_.c_str(), "other", Access::tenant, pages)
                      : PageFault{}),
            "there is no share \"other\": headgate run --name NAME makes one");
}

}  // namespace
}  // namespace headgate::ledger
