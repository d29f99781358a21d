// For tests: a server on a loop in a thread of its own, its socket in a folder that goes with it, and a raw client.
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

// Looks until `holds`, 20 s at most.
[[nodiscard]] bool eventually(const std::function<bool()>& holds);

// The server's limits with a minute for each part of an exchange: a machine that stalls for seconds cuts no client off.
[[nodiscard]] ServerLimits patient();

class LoopThread {
 public:
  LoopThread() : thread_([this] { loop_.run(); }) {}
  ~LoopThread() {
    loop_.stop();
    thread_.join();
  }
  Loop& loop() { return loop_; }

  // `work` on the loop's thread, and its value.
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
  Server& server() { return *server_; }  // on_loop() only
  std::size_t connections();

 private:
  std::string folder_;
  LoopThread thread_;
  std::unique_ptr<Server> server_;
  std::uint16_t port_ = 0;
};

// A client that writes what it likes.
class RawClient {
 public:
  explicit RawClient(const Endpoint& endpoint);
  [[nodiscard]] bool connected() const { return connected_; }
  bool send(std::string_view text);  // false: the server hung up, or takes no more within 20 s
  void half_close();
  void close() { fd_.reset(); }
  // What comes until the server hangs up, or `enough` of it is here. Ends after 20 s of silence, and after two minutes
  // in all, which a stream with heartbeats would never reach by its silence.
  std::string read(const std::function<bool(const std::string&)>& enough = [](const std::string&) { return false; });
  [[nodiscard]] bool hung_up() const { return hung_up_; }  // seen by read()
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  bool connected_ = false;
  bool hung_up_ = false;
};

}  // namespace headgate::http
