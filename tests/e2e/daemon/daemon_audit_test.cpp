// Every way around the limiter listed in docs/security.md: a real program takes it, and headgated names the program.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "base/now.hpp"
#include "daemon_program.hpp"
#include "snapshot/json.hpp"

namespace headgate::e2e {
namespace {

namespace fs = std::filesystem;
using Environment = std::map<std::string, std::string>;

// docs/repair.md says four seconds; a test's machine may also be busy.
constexpr std::chrono::seconds kNamedWithin{10};

class DaemonAudit : public ::testing::Test {
 protected:
  DaemonAudit() { EXPECT_EQ(daemon_.cli().shell("$H share create alice --mem 4GiB --compute 50%").status, 0); }

  // The environment that `headgate run --share alice` would set, for tests to modify.
  [[nodiscard]] Environment tenant() const {
    return {{"HEADGATE_SHARE", "alice"},
            {"HEADGATE_SHARE_DIR", daemon_.cli().runtime() + "/shares/alice"},
            {"HEADGATE_RUNTIME_DIR", daemon_.cli().runtime()},
            {"HEADGATE_SIM_DIR", daemon_.cli().directory() + "/node"},
            {"LD_LIBRARY_PATH", SIMULATOR_DIR},
            {"LD_PRELOAD", HEADGATE_LIMITER}};
  }

  // Waits for the event that names the process, and checks that it came in time.
  [[nodiscard]] std::optional<snapshot::Event> named(pid_t pid, const std::string& kind) const {
    const auto until = std::chrono::steady_clock::now() + kNamedWithin;
    while (std::chrono::steady_clock::now() < until) {
      for (const auto& event : events_of(pid))
        if (event.kind == kind) return event;
      rest_ms(100);
    }
    ADD_FAILURE() << "no event named process " << pid << ": " << daemon_.ask("GET", "/v1/processes").body;
    return std::nullopt;
  }

  // Waits for an event that tells `way` for the process: the one that names it, or a later one.
  void expect_way(pid_t pid, const std::string& way) const {
    EXPECT_TRUE(eventually([&] {
      return std::ranges::any_of(events_of(pid), [&](const auto& event) { return event.text.contains(way); });
    })) << way
        << ": " << daemon_.ask("GET", "/v1/events").body;
  }

  [[nodiscard]] std::vector<snapshot::Event> events_of(pid_t pid) const {
    auto events = snapshot::from_json<std::vector<snapshot::Event>>(daemon_.ask("GET", "/v1/events").body);
    if (!events) return {};
    std::erase_if(*events, [&](const auto& event) { return event.pid != static_cast<std::uint32_t>(pid); });
    return *events;
  }

  // A copy of the driver's library with another soname, which the dynamic linker treats as a different library.
  [[nodiscard]] std::string own_driver() const {
    const std::string path = daemon_.cli().directory() + "/libmine.so";
    std::ifstream in(SIMULATOR_DIR "/libcuda.so.1", std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    const std::string name(std::string_view("\0libcuda.so.1\0", 14));
    std::size_t count = 0;
    for (std::size_t at = 0; (at = bytes.find(name, at)) != bytes.npos; ++count)
      bytes.replace(at, 9, std::string_view("\0libmine.", 9));
    EXPECT_GT(count, 0u);
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  // Waits until the program is ready and makes it allocate 512 MiB, which it keeps.
  static void take(Program& program) {
    const std::string ready = program.line();
    ASSERT_EQ(ready, "ready 0") << program.errors();
    program.say("alloc 536870912");
    ASSERT_EQ(program.line(), "0");
  }

  Daemon daemon_;
};

TEST_F(DaemonAudit, AProgramWhosePreloadWasUnsetIsNamed) {
  auto environment = tenant();
  environment["LD_PRELOAD"] = "";
  Program rogue({BYPASS_PROGRAM, "libcuda.so.1"}, environment);
  take(rogue);
  const auto event = named(rogue.pid(), "audit.outside");
  ASSERT_TRUE(event);
  EXPECT_EQ(event->severity, "warn");
  EXPECT_EQ(event->uid, ::geteuid());
  EXPECT_NE(event->text.find("is in no share: no limit applies to it"), std::string::npos) << event->text;
  expect_way(rogue.pid(), "; the limiter is not loaded");
  EXPECT_EQ(daemon_.snapshot().node.unattended_processes, 1u);
}

TEST_F(DaemonAudit, AStaticallyLinkedProgramIsNamed) {
#ifndef BYPASS_STATIC
  GTEST_SKIP() << "skipped: a sanitizer's runtime links into no static program";
#else
  Program rogue({BYPASS_STATIC}, tenant());
  take(rogue);
  ASSERT_TRUE(named(rogue.pid(), "audit.outside"));
  expect_way(rogue.pid(), "it is statically linked, so nothing can be preloaded");
#endif
}

TEST_F(DaemonAudit, ACustomDriverLibraryIsNamedWithItsFile) {
  const std::string copy = own_driver();
  Program rogue({BYPASS_PROGRAM, copy}, tenant());
  take(rogue);
  ASSERT_TRUE(named(rogue.pid(), "audit.outside"));
  expect_way(rogue.pid(), "it has a copy of the driver's library: " + copy);
}

// Joins its share through one library and bypasses it through another.
TEST_F(DaemonAudit, AMemberAboveItsLedgerIsNamedWithItsShare) {
  const std::string copy = own_driver();
  auto environment = tenant();
  environment["BYPASS_FIRST"] = "libcuda.so.1";
  Program rogue({BYPASS_PROGRAM, copy}, environment);
  ASSERT_EQ(rogue.line(), "ready 0") << rogue.errors();
  // While the limiter still measures its context, an allocation would count as part of it. Wait half a second more.
  ASSERT_TRUE(eventually([&] { return daemon_.share("alice").devices.at(0).memory_residual_bytes > 0; }));
  rest_ms(500);
  rogue.say("alloc 536870912");
  ASSERT_EQ(rogue.line(), "0");
  const auto event = named(rogue.pid(), "audit.memory");
  ASSERT_TRUE(event);
  EXPECT_EQ(event->share, "alice");
  expect_way(rogue.pid(), "it has a copy of the driver's library: " + copy);
}

// The limiter measures this memory, so the share is charged; the process is named nevertheless.
TEST_F(DaemonAudit, UnexplainedMemoryIsReportedThoughCharged) {
  auto environment = tenant();
  environment["BYPASS_FIRST"] = "libcuda.so.1";
  Program rogue({BYPASS_PROGRAM, own_driver()}, environment);
  ASSERT_EQ(rogue.line(), "ready 0") << rogue.errors();
  rogue.say("front 1048576");
  ASSERT_EQ(rogue.line(), "0");
  rogue.say("alloc 536870912");
  ASSERT_EQ(rogue.line(), "0");
  rogue.say("front 1048576");
  ASSERT_EQ(rogue.line(), "0");
  ASSERT_TRUE(eventually([&] { return daemon_.share("alice").devices.at(0).memory_residual_bytes >= 536870912; }));
  const auto event = named(rogue.pid(), "audit.memory");
  ASSERT_TRUE(event);
  EXPECT_EQ(event->share, "alice");
  EXPECT_TRUE(event->text.contains("none of its calls explains")) << event->text;
}

TEST_F(DaemonAudit, AProgramInNamespacesIsNamedByItsHostPid) {
  if (daemon_.cli().shell("unshare --user --map-root-user --mount --pid --fork true").status != 0)
    GTEST_SKIP() << "this machine makes no namespaces";
  auto environment = tenant();
  environment["LD_PRELOAD"] = "";
  Program rogue({"/usr/bin/env", "unshare", "--user", "--map-root-user", "--mount", "--pid", "--kill-child", "--fork",
                 BYPASS_PROGRAM, "libcuda.so.1"},
                environment);
  take(rogue);
  // unshare waits, and the program is its child.
  const Said child = daemon_.cli().shell("cat /proc/" + std::to_string(rogue.pid()) + "/task/*/children");
  const pid_t pid = std::atoi(child.out.c_str());
  ASSERT_GT(pid, 0) << child.out << child.err;
  ASSERT_TRUE(named(pid, "audit.outside"));
  expect_way(pid, "it has its own user and mount and pid namespaces");
}

TEST_F(DaemonAudit, AnExemptProgramNeedsMoreThanAName) {
  const std::string exempt = daemon_.cli().directory() + "/nvidia-cuda-mps-server";
  fs::copy_file(BYPASS_PROGRAM, exempt);
  if (::geteuid() != 0) GTEST_SKIP() << "only root can own the server's file";
  auto environment = tenant();
  environment["LD_PRELOAD"] = "";
  Program server({exempt, "libcuda.so.1"}, environment);
  take(server);
  Program rogue({BYPASS_PROGRAM, "libcuda.so.1"}, environment);
  take(rogue);
  ASSERT_TRUE(named(rogue.pid(), "audit.outside"));
  EXPECT_EQ(daemon_.snapshot().node.unattended_processes, 1u);
  EXPECT_EQ(daemon_.ask("GET", "/v1/events").body.find("(nvidia-cuda-mps"), std::string::npos);
}

// A user may make an exempt program's file run other code: LD_PRELOAD=evil.so nvidia-persistenced.
TEST_F(DaemonAudit, AUsersExemptProgramIsNamed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can own the program's file and run it as another user";
  // Only directories owned by root lead to an exempt program, so not below /tmp.
  std::string folder = "/run/headgate-exempt-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) GTEST_SKIP() << "/run cannot be written here";
  fs::permissions(folder, fs::perms(0755));
  fs::copy_file(BYPASS_PROGRAM, folder + "/Xorg");
  ASSERT_EQ(daemon_.cli().shell("chmod 755 $D && chmod -R a+rwX $D/node").status, 0);
  auto environment = tenant();
  environment["LD_PRELOAD"] = "";
  {
    Program rogue(
        {"/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", folder + "/Xorg", "libcuda.so.1"},
        environment);
    take(rogue);
    const auto event = named(rogue.pid(), "audit.outside");
    EXPECT_TRUE(event && event->uid == 65534);
  }
  fs::remove_all(folder);
}

// With accounting on, a process that lives less than a second is caught too.
TEST_F(DaemonAudit, AnEndedProcessIsNamedByTheDriversAccounting) {
  const std::string on = "HEADGATE_SIM_DIR=$D/node LD_LIBRARY_PATH=$SIM " BYPASS_PROGRAM " --accounting";
  const Said switched = daemon_.cli().shell(on);
  if (switched.status == 4) GTEST_SKIP() << "switching accounting on takes root";
  ASSERT_EQ(switched.status, 0) << switched.out << switched.err;
  const std::uint64_t on_ns = steady_now_ns();
  // Waits for a snapshot with accounting on, which finds no process.
  ASSERT_TRUE(eventually([&] { return daemon_.snapshot().taken_ns > on_ns; }));
  auto environment = tenant();
  pid_t honest = 0, stranger = 0;
  {
    Program inside({BYPASS_PROGRAM, "libcuda.so.1"}, environment);
    take(inside);
    honest = inside.pid();
    environment["LD_PRELOAD"] = "";
    Program outside({BYPASS_PROGRAM, "libcuda.so.1"}, environment);
    take(outside);
    stranger = outside.pid();
    inside.close_stdin(), outside.close_stdin();
    EXPECT_EQ(inside.wait(), 0);
    EXPECT_EQ(outside.wait(), 0);
  }
  const auto event = named(stranger, "audit.outside");
  ASSERT_TRUE(event);
  EXPECT_NE(event->text.find("it has ended"), std::string::npos) << event->text;
  const auto other = named(honest, "process.accounted");
  ASSERT_TRUE(other);
  EXPECT_EQ(other->share, "alice");
}

}  // namespace
}  // namespace headgate::e2e
