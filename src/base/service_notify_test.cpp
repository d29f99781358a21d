#include "base/service_notify.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/unique_fd.hpp"

namespace headgate {
namespace {

// Stands in for systemd's socket.
class Manager {
 public:
  explicit Manager(const std::string& name) : name_(name), fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, sizeof address.sun_path - 1);
    if (name[0] == '@') address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  ~Manager() {
    ::unsetenv("NOTIFY_SOCKET");
    if (name_[0] == '/') std::filesystem::remove(name_);
  }
  Manager(const Manager&) = delete;
  // Returns what was sent, or empty: sending on a Unix socket is complete when it returns.
  [[nodiscard]] std::string heard() const {
    std::array<char, 4096> text{};
    const auto size = ::recv(fd_.get(), text.data(), text.size(), MSG_DONTWAIT);
    return size > 0 ? std::string(text.data(), static_cast<std::size_t>(size)) : "";
  }

 private:
  std::string name_;
  UniqueFd fd_;
};

std::string own_name() { return "headgate-notify-" + std::to_string(::getpid()); }

TEST(ServiceNotify, SystemdIsNotifiedOverBothKindsOfSocket) {
  for (const std::string& name : {testing::TempDir() + own_name(), "@" + own_name()}) {
    const Manager manager(name);
    tell_service_manager(ServiceState::ready, "2 GPUs, 6 shares");
    EXPECT_EQ(manager.heard(), "READY=1\nSTATUS=2 GPUs, 6 shares") << name;
    tell_service_manager(ServiceState::alive);
    EXPECT_EQ(manager.heard(), "WATCHDOG=1") << name;
    tell_service_manager(ServiceState::stopping);
    EXPECT_EQ(manager.heard(), "STOPPING=1") << name;
  }
}

TEST(ServiceNotify, AReloadCarriesTheTimestampThatSystemdNeeds) {
  const Manager manager("@" + own_name());
  timespec before{}, after{};
  ::clock_gettime(CLOCK_MONOTONIC, &before);
  tell_service_manager(ServiceState::reloading);
  ::clock_gettime(CLOCK_MONOTONIC, &after);
  const std::string heard = manager.heard(), head = "RELOADING=1\nMONOTONIC_USEC=";
  ASSERT_TRUE(heard.starts_with(head)) << heard;
  const long long time = std::stoll(heard.substr(head.size()));
  EXPECT_GE(time, before.tv_sec * 1'000'000LL + before.tv_nsec / 1000);
  EXPECT_LE(time, after.tv_sec * 1'000'000LL + after.tv_nsec / 1000);
}

TEST(ServiceNotify, AStatusCannotInjectAnotherAssignment) {
  const Manager manager("@" + own_name());
  tell_service_manager(ServiceState::alive, "share x\nMAINPID=1");
  EXPECT_EQ(manager.heard(), "WATCHDOG=1\nSTATUS=share x MAINPID=1");
}

TEST(ServiceNotify, AMissingManagerIsNoError) {
  ::unsetenv("NOTIFY_SOCKET");
  tell_service_manager(ServiceState::ready);
  for (const std::string& name :
       {std::string(), std::string("@"), std::string("/"), std::string("relative"), std::string("vsock:2:1234"),
        "/" + std::string(200, 'x'), testing::TempDir() + "none"}) {
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
    tell_service_manager(ServiceState::ready);
  }
  ::unsetenv("NOTIFY_SOCKET");
}

TEST(ServiceNotify, AManagerThatDoesNotReadDoesNotStopTheDaemon) {
  const Manager manager("@" + own_name());
  for (int i = 0; i < 10'000; ++i) tell_service_manager(ServiceState::alive);  // far more than any queue holds
  EXPECT_EQ(manager.heard(), "WATCHDOG=1");
}

}  // namespace
}  // namespace headgate
