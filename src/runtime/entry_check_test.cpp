#include "runtime/entry_check.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/unique_fd.hpp"
#include "http/endpoint.hpp"

namespace headgate::runtime {
namespace {

namespace fs = std::filesystem;

// The runtime directory of a daemon that answers one request with these bytes.
class EntryCheck : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(root_.data()), nullptr);
    fs::create_directories(root_ + "/control");
    fs::create_directories(root_ + "/shares/a");
  }
  void TearDown() override {
    if (daemon_.joinable()) daemon_.join();
    fs::remove_all(root_);
  }
  void listen() {
    listener_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto address = http::address_of({.path = root_ + "/control/headgate.sock"});
    ASSERT_TRUE(address);
    ASSERT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address->storage), address->size), 0);
    ASSERT_EQ(::listen(listener_.get(), 16), 0);
  }
  void answer(const std::string& status, const std::string& body) {
    listen();
    daemon_ = std::thread([this, text = "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) +
                                        "\r\nConnection: close\r\n\r\n" + body] {
      // The first connection only checks that the socket is listening.
      while (!request_.contains("\r\n\r\n")) {
        const UniqueFd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        char bytes[4096];
        ssize_t got = 0;
        while (!request_.contains("\r\n\r\n") && (got = ::read(peer.get(), bytes, sizeof bytes)) > 0)
          request_.append(bytes, static_cast<std::size_t>(got));
        if (request_.contains("\r\n\r\n"))
          static_cast<void>(::send(peer.get(), text.data(), text.size(), MSG_NOSIGNAL));
      }
    });
  }
  [[nodiscard]] std::string check(const std::string& config = "{}") const {
    const auto may = check_entry(root_ + "/shares/a", *oci::ContainerConfig::read(config));
    if (may && !may->empty()) return *may;
    return may ? "starts" : may.error().message + " (" + may.error().hint + ")";
  }

  std::string root_ = (fs::temp_directory_path() / "headgate-entry-XXXXXX").string();
  UniqueFd listener_;
  std::string request_;
  std::thread daemon_;
};

TEST_F(EntryCheck, AsksForTheUserOfTheContainer) {
  answer("200 OK", "{}");
  EXPECT_EQ(check(R"({"process":{"user":{"uid":7,"gid":8,"additionalGids":[9,10]}},
                      "linux":{"namespaces":[{"type":"user"}],
                               "uidMappings":[{"containerID":0,"hostID":1000,"size":10}],
                               "gidMappings":[{"containerID":0,"hostID":2000,"size":11}]}})"),
            "starts");
  daemon_.join();
  EXPECT_TRUE(
      request_.starts_with(
          "GET /v1/shares/a/container?uid=1007&gid=2008&groups=2009,2010&user_namespace_owner=0 HTTP/1.1\r\n") ||
      request_.starts_with("GET /v1/shares/a/container HTTP/1.1\r\n"))
      << "the latter in a user namespace: " << request_;
}

TEST_F(EntryCheck, ReportsTheDaemonsAnswer) {
  answer("409 Conflict", R"({"code":"conflict","message":"the share 'a' is paused","hint":"resume it"})");
  EXPECT_EQ(check(), "the share 'a' is paused (resume it)");
}

TEST_F(EntryCheck, LetsContainersStartWithoutADaemon) {
  EXPECT_EQ(check(), "starts") << "there is no socket";
  listen();
  listener_.reset();
  EXPECT_EQ(check(), "starts") << "one that a killed daemon has left";
  std::ofstream(root_ + "/shares/a/fail-policy") << "closed\n";
  EXPECT_EQ(check(), "starts") << "its programs are refused until there is a daemon";
  std::ofstream(root_ + "/shares/a/fail-policy") << "open\n";
  EXPECT_EQ(
      check(),
      "headgated does not run: programs that the container starts before it does run outside the share 'a', whose "
      "fail policy is open");
}

TEST_F(EntryCheck, RefusesIfTheDaemonIsSilent) {
  listen();
  EXPECT_EQ(check(), "headgated at " + root_ +
                         "/control/headgate.sock does not answer within 2 s, so the share 'a' could not be asked for "
                         "(restart headgated; programs that run go on)");
}

}  // namespace
}  // namespace headgate::runtime
