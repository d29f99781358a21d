// The API of zeusd inside headgated: its sockets, keys and API groups. PowerControl decides on permissions.
#pragma once

#include <memory>
#include <string>

#include "base/result.hpp"
#include "config/config.hpp"
#include "daemon/options.hpp"
#include "daemon/power_control.hpp"
#include "http/loop.hpp"

namespace headgate::daemon {

// For the loop's thread.
class ZeusdListener {
 public:
  // Returns whether the command line or the configuration asks for it.
  [[nodiscard]] static bool is_wanted(const config::Config& config, const Options& options);
  // Checks what a start would reject in the configuration: the key's file, addresses. Errors: usage, denied.
  [[nodiscard]] static Result<void> check(const config::Config& config);

  // `power` must outlive it. Errors: of check() and of the sockets.
  [[nodiscard]] static Result<std::unique_ptr<ZeusdListener>> start(http::Loop& loop, const config::Config& config,
                                                                    const Options& options, PowerControl& power);
  ~ZeusdListener();
  ZeusdListener(const ZeusdListener&) = delete;

  // Returns where it answers, for the log.
  [[nodiscard]] const std::string& where() const;
  // Closes sockets and streams.
  void stop();

 private:
  struct Impl;
  explicit ZeusdListener(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace headgate::daemon
