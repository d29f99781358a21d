// The zeusd API: GPU settings, power streams and CPU energy over HTTP, on separate listeners.
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

// A caller: identified by kernel credentials over a Unix socket, and by its token if the API requires one.
struct ZeusdCaller {
  http::Peer peer;
  std::optional<std::string> user;  // the token's sub
};

struct ZeusdOptions {
  std::vector<power::ApiGroup> groups;  // API groups to serve
  std::optional<std::string> key;       // if set, callers need tokens signed with it
  std::string version;
  std::chrono::nanoseconds gpu_period{std::chrono::milliseconds(50)};
  std::chrono::nanoseconds cpu_period{std::chrono::milliseconds(100)};
  // Limit for answering a blocking call: the client gives up after 5 s.
  std::chrono::milliseconds patience{4'500};
  // Checks whether the caller may send the command to these GPUs. On the loop's thread. If not set: all callers that
  // reach the socket may.
  std::function<Result<void>(const ZeusdCaller&, const std::vector<std::uint32_t>& gpus, const power::Command&)>
      may_write;
  // Called on the loop's thread before a permitted write. `begin` is called once, on any thread: the write starts, or
  // fails with the error. If not set, writes start at once.
  std::function<void(const ZeusdCaller&, const std::vector<std::uint32_t>& gpus, const power::Command&,
                     std::function<void(Result<void>)> begin)>
      before_write;
  // Checks whether the caller gets every reading of a GPU (of CPUs: empty) instead of one per 100 ms. On the loop's
  // thread. If not set: all callers do.
  std::function<bool(const ZeusdCaller&, std::optional<std::uint32_t> gpu)> reads_live;
};

// Time between two readings of a figure for a caller that does not get every one.
inline constexpr std::chrono::milliseconds kCoarseGap{100};

// For the loop's thread. Must outlive the servers that run its routes.
class Zeusd {
 public:
  // `queues` and `rapl` must outlive it.
  Zeusd(http::Loop& loop, power::ControlQueues& queues, power::Rapl& rapl, ZeusdOptions options);
  ~Zeusd();

  [[nodiscard]] http::Router routes();
  // Returns a check for whether a request carries a token signed with the key, whatever it permits.
  [[nodiscard]] std::function<bool(const http::Request&)> shows_token() const;
  [[nodiscard]] std::size_t followers() const;  // open power streams

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // shared with work posted to the loop that may run after this object is gone
};

// Formats a caller for logs and events: "uid 1000", "token of alice", "a TCP client".
[[nodiscard]] std::string describe(const ZeusdCaller& caller);

}  // namespace headgate::api
