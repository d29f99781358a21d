// The one table of environment names, ours and other limiters', and how they become a grant.
//
// Precedence, for each device and each kind of limit: our name with an index suffix, our name, a foreign name with an
// index suffix (or a JSON map's entry), a foreign name; among foreign names the earlier row of the table. Every name
// that is set must be readable, also where another one wins: an unreadable value, or 0, never means "no limit".
//
// An index suffix (CUDA_MEM_LIMIT_1) counts in the UUID list where one is given (GPU_DEVICES_UUID,
// MANAGER_VISIBLE_DEVICES, MANAGER_VISIBLE_DEVICE_<i>), else in the list of visible devices. Nothing here allocates;
// texts in the answer point into the environment that was read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "guest/grant/size.hpp"

namespace headgate::grant {

inline constexpr std::uint32_t kMaxDevices = 16;

// What a variable says.
enum class Meaning : std::uint8_t {
  memory,          // memory limit
  host_memory,     // host memory that stands in for the GPU's past the limit
  ceiling,         // compute ceiling
  soft,            // burst above the ceiling; counts only above it
  gpu,             // which GPUs the share covers: a selector of select.hpp
  share,           // the share's name
  log,             // how much the limiter prints
  log_file,        // where to, instead of standard error
  fail_policy,     // what happens when the limiter cannot measure: open or closed
  share_dir,       // the directory of a share of the daemon's, with its tenant socket
  socket,          // the daemon's control socket: for the command, not for the limiter
  runtime_dir,     // where share pages lie without a daemon
  uuid_list,       // UUIDs; gives index suffixes their meaning
  uuid_at,         // the UUID at one index
  oversubscribe,   // memory beyond the card
  priority,        // 0 high, 1 low
  compute_policy,  // default, force, disable
  opt_out,         // the limiter is to stay out of the way
  identity,        // pod and container names, for views
  ignored,         // accepted so that existing specs start; changes nothing here
};

// How its value is written.
enum class Syntax : std::uint8_t {
  memory,          // parse_memory, Dialect::headgate
  foreign_memory,  // parse_memory, Dialect::bare_bytes
  compute,         // parse_compute, Dialect::headgate; or FLOPS (card_table.hpp)
  percent,         // parse_compute, Dialect::bare_percent
  memory_map,      // {"GPU-...": 8589934592, "1": "3g"}
  percent_map,     // {"GPU-...": 50, "1": 25}
  ratio,           // a number of 1 or more
  ratio_or_flag,   // the same, or true or false
  flag,            // true, false, 1, 0 in any case
  log_word,        // off, error, warn, info, debug
  log_seed,        // 0 info, 1 error, 2 warning, 3 fatal, 4 verbose, 5 detail
  log_hami,        // 0 and 1 errors, 2 warnings, 3 info, 4 debug
  fail_word,       // open, closed
  priority,        // 0, 1
  policy_word,     // default, force, disable
  uuids,           // GPU-... separated by commas
  uuid,            // GPU-...
  share_name,      // letters, digits, '-', '_' and '.', at most 63, not beginning with '.'
  absolute_path,   // beginning with '/', at most 255 bytes
  text,            // anything but nothing
  anything,
};

struct Variable {
  std::string_view name;
  Meaning meaning;
  Syntax syntax;
  bool ours;
  bool indexed;  // NAME_0, NAME_1, ... are known too
};

// All rows, in order of precedence among foreign names. For documentation, tests and doctor.
[[nodiscard]] std::span<const Variable> variables();
[[nodiscard]] std::string_view accepted(Syntax syntax);

// The numbering of HEADGATE_LOG; equal to the limiter's and the policy page's.
enum class LogLevel : std::uint32_t { off, error, warn, info, debug };

struct DeviceGrant {
  Memory memory;                        // said() is false where no limit was asked for
  const char* memory_entry = nullptr;   // the NAME=VALUE of the environment that said it
  Memory host_memory;                   // past the limit; said() is false where none was asked for
  std::uint32_t ceiling_ppm = 0;        // 0: none asked for
  std::uint64_t ceiling_megaflops = 0;  // instead of ceiling_ppm, which resolve_flops() fills; 0: it was said as a part
  const char* ceiling_entry = nullptr;  // as memory_entry
  const char* soft_entry = nullptr;
  std::uint32_t soft_ppm = 0;           // 0: none, or not above the ceiling
  std::uint32_t oversubscribe_ppm = 0;  // 0: not asked for; kWholePpm: asked for without a ratio

  friend bool operator==(const DeviceGrant&, const DeviceGrant&) = default;
};

struct Grant {
  DeviceGrant devices[kMaxDevices];  // by position in the list of visible devices
  std::uint32_t device_count = 0;
  bool asks = false;         // some limit, share name or selector was given: the process wants to be held
  bool opted_out = false;    // HEADGATE_DISABLE, CUDA_DISABLE_CONTROL, DISABLE_VGPU_CONTROL; a policy may forbid it
  bool compute_off = false;  // GPU_CORE_UTILIZATION_POLICY=disable
  bool log_said = false;
  bool log_infos = false;  // LOGGER_LEVEL shows them at every level
  bool fail_closed = false;
  bool low_priority = false;
  LogLevel log = LogLevel::error;
  std::string_view share, share_dir, gpu, socket, runtime_dir, log_file, uuid_list;  // empty: not said
  std::string_view pod_name, pod_namespace, pod_uid, container_name;
};

// The first value that could not be read.
struct Refusal {
  Fault fault = Fault::none;
  std::string_view variable;  // with its index suffix
  std::string_view value;
  std::string_view accepted;
  std::uint64_t card_bytes = 0;  // of the card that is too small (Fault::over_card)

  explicit operator bool() const { return fault != Fault::none; }
};

struct Reading {
  Grant grant;
  Refusal refusal;  // false: the grant is good
};

// Reads NAME=VALUE strings, null-terminated as environ is. visible_uuids: the devices this process can see, in its
// order, at most kMaxDevices counted. Where one name occurs twice the first counts, as for getenv().
// `present`: all GPUs of the machine or container, which may be more; a limit that names none of them is refused, one
// that names a hidden one is not this process's. Empty: nobody knows, and none is refused for that.
[[nodiscard]] Reading read_environment(const char* const* envp, std::span<const std::string_view> visible_uuids,
                                       std::span<const std::string_view> present = {});

// Of a device that was said FLOPS: the part of a card of that model, as NVML names it. Refused: a model in no table,
// and more than the card has.
[[nodiscard]] Refusal resolve_flops(DeviceGrant& device, std::string_view model);
// Refused: a burst or soft limit with no hard limit on that device. Where none is said elsewhere either.
[[nodiscard]] Refusal check_burst(const DeviceGrant& device);

// What of a memory limit lies on a card of so many bytes, and what past it in host memory: all on the card unless the
// limit is oversubscribed, by a ratio or by as much as the card has not.
struct MemorySplit {
  std::uint64_t card_bytes = 0, host_bytes = 0;
};
[[nodiscard]] MemorySplit split_memory(const DeviceGrant& device, std::uint64_t card_bytes);

// Whether a card of `card_bytes` (0: not known) can keep the memory limit that was said for it. Refused: more than the
// card has, which would be no limit at all, and a percentage that comes to less than one byte.
[[nodiscard]] Refusal check_memory(const DeviceGrant& device, std::uint64_t card_bytes);

// What one line on stderr says: "CUDA_MEM_LIMIT_0='0m' is zero; accepted: ...". NUL-terminated, cut to fit, control
// characters replaced; answers its length.
std::size_t describe(const Refusal& refusal, std::span<char> out);

// Whether a text can name a share (Syntax::share_name).
[[nodiscard]] bool is_share_name(std::string_view text);

}  // namespace headgate::grant
