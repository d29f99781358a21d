// `headgate zeusd serve` and `token issue`: zeusd's program, without the rest of the daemon. Its flags are zeusd's own,
// so that its units and scripts start headgate unchanged.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "power/token.hpp"

namespace headgate::daemon {

struct ZeusdServeOptions {
  bool tcp = false;  // --mode tcp
  std::string socket_path = "/run/zeusd/zeusd.sock";
  mode_t socket_mode = 0666;
  std::optional<uid_t> socket_uid;
  std::optional<gid_t> socket_gid;
  std::string tcp_address = "127.0.0.1:4938";
  std::uint32_t gpu_hz = 20, cpu_hz = 10;  // 1 to 1000
  bool explicit_backend = false;           // --gpu-backend nvml: a start without GPUs is an error
  std::vector<power::ApiGroup> groups = {power::ApiGroup::gpu_control, power::ApiGroup::gpu_read,
                                         power::ApiGroup::cpu_read};
  std::string overrides_path, key_path;  // empty: none
  std::vector<std::string> names;        // --name: host names in a request's Host over TCP
  std::optional<std::string> simulate;   // --sim[=PROFILE]
  std::string sys_root;                  // --sys-root; empty: /zeus_sys, then /sys

  friend bool operator==(const ZeusdServeOptions&, const ZeusdServeOptions&) = default;
};

struct ZeusdTokenOptions {
  std::string key_path, user, expires;
  std::vector<power::ApiGroup> scopes;
};

enum class ZeusdCommand { serve, token_issue, help, version };

struct ZeusdOptions {
  ZeusdCommand command = ZeusdCommand::help;
  ZeusdServeOptions serve;
  ZeusdTokenOptions token;
};

// `words`: what follows `headgate zeusd`. Errors: usage, with the word and what is accepted.
[[nodiscard]] Result<ZeusdOptions> parse_zeusd(const std::vector<std::string>& words);
[[nodiscard]] const char* zeusd_usage();

// Runs `headgate zeusd` with these words; returns its exit status.
[[nodiscard]] int zeusd_main(int argc, char** argv);

}  // namespace headgate::daemon
