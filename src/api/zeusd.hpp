// The API of zeusd: GPU settings, power streams and CPU energy over HTTP, on separate listeners.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "http/loop.hpp"
#include "http/message.hpp"
#include "http/router.hpp"
#include "power/control_queues.hpp"
#include "power/rapl.hpp"
#include "power/token.hpp"

namespace headgate::api {

// Who calls: by the kernel's word over a Unix socket, by its token where the API asks for one.
struct ZeusdCaller {
  http::Peer peer;
  std::optional<std::string> user;  // the token's sub
};

struct ZeusdOptions {
  std::vector<power::ApiGroup> groups;  // of which paths answer
  std::optional<std::string> key;       // set: callers need tokens that are signed with it
  std::string version;
  std::chrono::nanoseconds gpu_period{std::chrono::milliseconds(50)};
  std::chrono::nanoseconds cpu_period{std::chrono::milliseconds(100)};
  // A blocking call is answered after this time at the latest: the client gives up after 5 s.
  std::chrono::milliseconds patience{4'500};
  // Whether this caller may give the command to these GPUs; on the loop's thread. Not set: everyone who reaches the
  // socket.
  std::function<Result<void>(const ZeusdCaller&, const std::vector<std::uint32_t>& gpus, const power::Command&)>
      may_write;
  // Called before a write that may begin, on the loop's thread; `begin` is called once, on any thread: the write
  // begins, or is answered with the error. Not set: it begins at once.
  std::function<void(const ZeusdCaller&, const std::vector<std::uint32_t>& gpus, const power::Command&,
                     std::function<void(Result<void>)> begin)>
      before_write;
  // Whether this caller gets every reading of a GPU (of CPUs: empty), not one each 100 ms; on the loop's thread. Not
  // set: everyone.
  std::function<bool(const ZeusdCaller&, std::optional<std::uint32_t> gpu)> reads_live;
};

// Between two readings of the same figure for a caller that does not get every one.
inline constexpr std::chrono::milliseconds kCoarseGap{100};

// For the loop's thread. Must outlive the servers that run its routes.
class Zeusd {
 public:
  // `queues` and `rapl` must outlive it.
  Zeusd(http::Loop& loop, power::ControlQueues& queues, power::Rapl& rapl, ZeusdOptions options);
  ~Zeusd();

  [[nodiscard]] http::Router routes();
  // Whether a request shows a token that is signed with the key, whatever it allows.
  [[nodiscard]] std::function<bool(const http::Request&)> shows_token() const;
  [[nodiscard]] std::size_t followers() const;  // of power streams

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // shared with work that is posted to the loop and may run after we are gone
};

// "uid 1000", "token of alice", "a TCP client": for logs and events.
[[nodiscard]] std::string describe(const ZeusdCaller& caller);

}  // namespace headgate::api
