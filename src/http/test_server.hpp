// For tests: a server on a loop in its own thread, with its socket in a temporary folder, and a raw client.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <thread>

#include "base/unique_fd.hpp"
#include "http/client.hpp"
#include "http/server.hpp"

namespace headgate::http {

using namespace std::chrono_literals;

// Polls `holds` for up to 20 s.
[[nodiscard]] bool eventually(const std::function<bool()>& holds);

// Server limits of a minute for each part of an exchange, so that a stalled test machine drops no client.
[[nodiscard]] ServerLimits patient();

class LoopThread {
 public:
  LoopThread() : thread_([this] { loop_.run(); }) {}
  ~LoopThread() {
    loop_.stop();
    thread_.join();
  }
  Loop& loop() { return loop_; }

  // Runs `work` on the loop's thread and returns its value.
  template <typename Work>
  auto on_loop(Work work) {
    std::packaged_task<decltype(work())()> task(std::move(work));
    auto result = task.get_future();
    loop_.post([&] { task(); });
    return result.get();
  }

 private:
  Loop loop_;
  std::thread thread_;
};

class TestServer {
 public:
  explicit TestServer(Router router, ServerLimits limits = patient());
  // `make` runs on the loop's thread.
  explicit TestServer(const std::function<Router(Loop&)>& make, ServerLimits limits = patient());
  ~TestServer();

  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] Endpoint unix_endpoint() const { return {.path = folder_ + "/s"}; }
  [[nodiscard]] Endpoint tcp_endpoint() const { return {.host = "127.0.0.1", .port = port_}; }
  LoopThread& thread() { return thread_; }
  Server& server() { return *server_; }  // use inside on_loop() only
  std::size_t connections();

 private:
  std::string folder_;
  LoopThread thread_;
  std::unique_ptr<Server> server_;
  std::uint16_t port_ = 0;
};

// A client that sends arbitrary bytes.
class RawClient {
 public:
  explicit RawClient(const Endpoint& endpoint);
  [[nodiscard]] bool connected() const { return connected_; }
  bool send(std::string_view text);  // false: the server closed, or accepted nothing for 20 s
  void half_close();
  void close() { fd_.reset(); }
  // Reads until the server closes or `enough` returns true. Ends after 20 s of silence, and after two minutes in any
  // case, because a stream with heartbeats is never silent.
  std::string read(const std::function<bool(const std::string&)>& enough = [](const std::string&) { return false; });
  [[nodiscard]] bool hung_up() const { return hung_up_; }  // set by read()
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  bool connected_ = false;
  bool hung_up_ = false;
};

}  // namespace headgate::http
