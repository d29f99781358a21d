// Whether multi-user mode is found where a release has it, and nowhere else, and that nothing is left of the search.
#include "mps/multi_user.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "mps/test_mps.hpp"

namespace headgate::mps {
namespace {

using std::chrono::milliseconds;

class MpsMultiUser : public ::testing::Test {
 protected:
  Result<void> probe(const std::string& tool, const Limits& limits = {}) {
    auto found = probe_multi_user(tool, folder_.base(), "/proc", limits, [] {});
    EXPECT_FALSE(std::filesystem::exists(folder_.base() + "/probe")) << tool;
    return found;
  }
  MpsFolder folder_;
};

TEST_F(MpsMultiUser, IsFoundWhereTheReleaseHasIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can ask for multi-user mode";
  for (const char* release : {"555", "later"}) {
    const Variable manners("HEADGATE_SIM_MPS", release);
    const auto found = probe(HEADGATE_SIM_MPS_TOOL);
    EXPECT_TRUE(found) << release << ": " << found.error().message;
  }
}

TEST_F(MpsMultiUser, IsNotFoundElsewhereAndTheReasonIsGiven) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can ask for multi-user mode";
  const Limits limits{.start = milliseconds(200), .ready = milliseconds(100), .answer = milliseconds(200)};
  const std::pair<const char*, const char*> kCases[] = {
      {"", "Cannot find MPS control daemon process"}, {"550", "Cannot find MPS control daemon process"},
      {"ignores", "starts servers for uid 65534"},    {"555,nonsense", "does not say for which user"},
      {"555,flood", "did not answer within 200 ms"},  {"555,refuse", "told to refuse"},
      {"555,hang", "did not answer within 200 ms"},   {"555,deaf", "no daemon answers"}};
  for (const auto& [manners, said] : kCases) {
    const Variable asked("HEADGATE_SIM_MPS", manners);
    const auto found = probe(HEADGATE_SIM_MPS_TOOL, limits);
    ASSERT_FALSE(found) << manners;
    EXPECT_NE(found.error().message.find(said), std::string::npos) << manners << ": " << found.error().message;
  }
  EXPECT_EQ(probe("/nothing/of/that/name").error().code, ErrorCode::unsupported);
}

// Each start would take its whole limit, and no option mends a tool that hangs.
TEST_F(MpsMultiUser, AToolThatHangsIsStartedOnceAndNamed) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can ask for multi-user mode";
  const std::filesystem::path folder = std::filesystem::path(folder_.base()).parent_path();
  std::ofstream(folder / "tool") << "#!/bin/sh\necho $@ >>" << folder.string() << "/calls\nexec sleep 600\n";
  std::filesystem::permissions(folder / "tool", std::filesystem::perms::owner_all);
  const auto found = probe(folder / "tool", {.start = milliseconds(300)});
  ASSERT_FALSE(found);
  const auto& [code, message, hint] = found.error();
  EXPECT_EQ(code, ErrorCode::unreachable);
  EXPECT_EQ(message, "MPS start: " + folder.string() + "/tool -d -M did not answer within 300 ms");
  EXPECT_EQ(hint, "find out why it hangs, or name another program: mps.tool");
  std::ifstream calls(folder / "calls");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(calls), {}), "-d -M\n");
}

TEST_F(MpsMultiUser, NeedsRoot) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can become another user";
  const Variable manners("HEADGATE_SIM_MPS", "555");
  const std::filesystem::path folder = std::filesystem::path(folder_.base()).parent_path();
  std::filesystem::permissions(folder, std::filesystem::perms(0777));
  std::filesystem::copy_file(HEADGATE_SIM_MPS_TOOL, folder / "tool");  // the build folder may be closed to others
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresuid(65'534, 65'534, 65'534) != 0) ::_exit(2);
    const auto found = probe(folder / "tool");
    ::_exit(!found && found.error().message.contains("Only root user") ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(MpsMultiUser, AgreesWithNvidiasReleases) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can ask for multi-user mode";
  for (const char* tool : {HEADGATE_REAL_MPS_TOOL, HEADGATE_MPS_TOOL_550})
    if (::access(tool, X_OK) == 0) {
      const auto found = probe(tool);
      ASSERT_FALSE(found) << tool;
      EXPECT_NE(found.error().message.find("Cannot find MPS control daemon process"), std::string::npos)
          << found.error().message;
    }
  if (::access(HEADGATE_MPS_TOOL_LATER, X_OK) != 0) GTEST_SKIP() << "dev/real-parts found no release that has the mode";
  const auto found = probe(HEADGATE_MPS_TOOL_LATER);
  EXPECT_TRUE(found) << found.error().message;
}

TEST_F(MpsMultiUser, OneDaemonServesAllUsersUntilTheLastTenantEnds) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can ask for multi-user mode";
  const Variable release("HEADGATE_SIM_MPS", "555");
  auto options = folder_.options(HEADGATE_SIM_MPS_TOOL);
  options.multi_user = true;
  Manager manager(std::move(options));
  ASSERT_TRUE(manager.adopt());
  ASSERT_TRUE(manager.has_multi_user());
  const Sleeper one, other(12'345);
  const auto variables = manager.acquire(tenant_of(one, {}, kAllUsers));
  ASSERT_TRUE(variables) << variables.error().message;
  EXPECT_EQ(variables->at(0).second, folder_.base() + "/" + kTestUuid + "/all/pipe");
  ASSERT_TRUE(manager.acquire(tenant_of(other, {}, kAllUsers)));
  const Tool tool(HEADGATE_SIM_MPS_TOOL, folder_.places(kAllUsers), kTestUuid);
  ASSERT_TRUE(tool.start_server(12'345));
  manager.look();
  EXPECT_EQ(manager.groups().at(0).servers, 1u);
  EXPECT_TRUE(folder_.told("mps.queued").empty()) << "that server is for the other user too";
  manager.release(one.mark());
  EXPECT_NE(folder_.running_daemon(kAllUsers), 0u);
  manager.release(other.mark());
  EXPECT_EQ(folder_.running_daemon(kAllUsers), 0u);
}

// The configuration says no multi-user mode any more, or the tool was replaced by another release.
TEST_F(MpsMultiUser, AnAdoptedDaemonGoesOnWithoutTheMode) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can ask for multi-user mode";
  const Sleeper tenant;
  {
    const Variable release("HEADGATE_SIM_MPS", "555");
    auto options = folder_.options(HEADGATE_SIM_MPS_TOOL);
    options.multi_user = true;
    Manager former(std::move(options));
    ASSERT_TRUE(former.adopt());
    ASSERT_TRUE(former.acquire(tenant_of(tenant, {}, kAllUsers)));
  }
  const std::uint32_t daemon = folder_.running_daemon(kAllUsers);
  auto options = folder_.options(HEADGATE_SIM_MPS_TOOL);
  options.multi_user = true;
  Manager next(std::move(options));
  ASSERT_TRUE(next.adopt());
  EXPECT_FALSE(next.has_multi_user());
  EXPECT_EQ(folder_.told("mps.single_user").size(), 1u);
  EXPECT_EQ(folder_.running_daemon(kAllUsers), daemon);
  EXPECT_TRUE(next.acquire(tenant_of(Sleeper(), {}, 0))) << "new tenants have their owner's";
  next.release(tenant.mark());
  EXPECT_EQ(folder_.running_daemon(kAllUsers), 0u);
}

}  // namespace
}  // namespace headgate::mps
