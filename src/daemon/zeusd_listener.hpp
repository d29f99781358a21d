// The API of zeusd inside headgated: its sockets, keys and API groups. PowerControl decides on permissions.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "api/zeusd.hpp"
#include "base/result.hpp"
#include "daemon/context.hpp"
#include "daemon/power_control.hpp"
#include "http/server.hpp"
#include "power/rapl.hpp"

namespace headgate::daemon {

// For the loop's thread.
class ZeusdListener {
 public:
  // Returns whether the command line or the configuration asks for it.
  [[nodiscard]] static bool is_wanted(const config::Config& config, const Options& options);
  // Checks what a start would reject in the configuration: the key's file, addresses. Errors: usage, denied.
  [[nodiscard]] static Result<void> check(const config::Config& config);

  // Returns null if it is not wanted. Both must outlive it. Errors: of check() and of the sockets.
  [[nodiscard]] static Result<std::unique_ptr<ZeusdListener>> start(Context& context, PowerControl& power);
  ZeusdListener(const ZeusdListener&) = delete;

  // Closes sockets and streams.
  void stop() { server_->stop(); }

 private:
  ZeusdListener() : rapl_(power::Rapl::usual_root()) {}
  [[nodiscard]] Result<void> listen(Context& context, bool has_key);

  power::Rapl rapl_;
  std::optional<api::Zeusd> zeusd_;
  std::optional<http::Server> server_;
  std::string where_;
};

}  // namespace headgate::daemon
