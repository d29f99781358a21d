// The table of environment names, ours and other limiters', and how they become a grant.
//
// Precedence for each device and kind of limit: our name with an index suffix, our name, a foreign name with an index
// suffix (or a JSON map's entry), a foreign name; among foreign names the earlier row. Every name that is set must be
// valid, even if another overrides it: an invalid value, or 0, never means "no limit".
//
// An index suffix (CUDA_MEM_LIMIT_1) refers to the UUID list if one is given (GPU_DEVICES_UUID,
// MANAGER_VISIBLE_DEVICES, MANAGER_VISIBLE_DEVICE_<i>), else to the list of visible devices. Nothing here allocates;
// returned texts point into the environment that was read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "guest/grant/size.hpp"

namespace headgate::grant {

inline constexpr std::uint32_t kMaxDevices = 16;

// What a variable sets.
enum class Meaning : std::uint8_t {
  memory,          // memory limit
  host_memory,     // host memory to use past the GPU memory limit
  ceiling,         // compute ceiling
  soft,            // burst ceiling; ignored unless above the ceiling
  gpu,             // which GPUs the share covers: a selector of select.hpp
  share,           // the share's name
  log,             // how much the limiter prints
  fail_policy,     // what happens when the limiter cannot measure: open or closed
  share_dir,       // directory of a share of the daemon, with its tenant socket
  uuid_list,       // UUIDs that index suffixes refer to
  uuid_at,         // the UUID at one index
  oversubscribe,   // memory beyond the card
  compute_policy,  // default, force, disable
  opt_out,         // the limiter stays inactive
  checked,         // read elsewhere, or accepted so that existing specs start: must be valid, changes no grant
};

// The format of a variable's value.
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
  text,            // any text that is not empty
  anything,
};

struct Variable {
  std::string_view name;
  Meaning meaning;
  Syntax syntax;
  bool ours;
  bool indexed;  // NAME_0, NAME_1, ... are accepted too
};

// Returns all rows, in order of precedence among foreign names. For documentation, tests and the doctor.
[[nodiscard]] std::span<const Variable> variables();
[[nodiscard]] std::string_view accepted(Syntax syntax);

// The values of HEADGATE_LOG; the limiter and the policy page use the same numbers.
enum class LogLevel : std::uint32_t { off, error, warn, info, debug };

struct DeviceGrant {
  Memory memory;                        // said() is false if no limit was requested
  const char* memory_entry = nullptr;   // the NAME=VALUE in the environment that set it
  Memory host_memory;                   // past the limit; said() is false if none was requested
  std::uint32_t ceiling_ppm = 0;        // 0: not requested
  std::uint64_t ceiling_megaflops = 0;  // replaces ceiling_ppm until resolve_flops() fills it; 0: not set in FLOPS
  const char* ceiling_entry = nullptr;  // as memory_entry
  const char* soft_entry = nullptr;
  std::uint32_t soft_ppm = 0;           // 0: none, or not above the ceiling
  std::uint32_t oversubscribe_ppm = 0;  // 0: not requested; kWholePpm: requested without a ratio

  friend bool operator==(const DeviceGrant&, const DeviceGrant&) = default;
};

struct Grant {
  DeviceGrant devices[kMaxDevices];  // by position in the list of visible devices
  std::uint32_t device_count = 0;
  bool asks = false;         // a limit, share name or selector was given: the process wants to be limited
  bool opted_out = false;    // HEADGATE_DISABLE, CUDA_DISABLE_CONTROL, DISABLE_VGPU_CONTROL; a policy may forbid it
  bool compute_off = false;  // GPU_CORE_UTILIZATION_POLICY=disable
  bool log_said = false;
  bool log_infos = false;  // LOGGER_LEVEL shows infos at every level
  bool fail_closed = false;
  LogLevel log = LogLevel::error;
  std::string_view share, share_dir, gpu;  // empty: not set
};

// The first value that could not be accepted.
struct Refusal {
  Fault fault = Fault::none;
  std::string_view variable;  // with its index suffix
  std::string_view value;
  std::string_view accepted;
  std::uint64_t card_bytes = 0;  // size of the card that is too small (Fault::over_card)

  explicit operator bool() const { return fault != Fault::none; }
};

struct Reading {
  Grant grant;
  Refusal refusal;  // false: the grant is valid
};

// Reads NAME=VALUE strings, null-terminated like environ. `visible_uuids`: the devices this process can see, in its
// order, at most kMaxDevices. If a name occurs twice, the first counts, as for getenv(). `present`: all GPUs of the
// machine or container. A limit for a GPU not among them is refused; a limit for a hidden one does not apply to this
// process. Empty: unknown, so nothing is refused for that reason.
[[nodiscard]] Reading read_environment(const char* const* envp, std::span<const std::string_view> visible_uuids,
                                       std::span<const std::string_view> present = {});

// Converts a device's FLOPS to a part of the given model (NVML's name). Refuses a model without a row, and more than
// the card has.
[[nodiscard]] Refusal resolve_flops(DeviceGrant& device, std::string_view model);
// Refuses a burst or soft limit without a hard limit on that device. Only if no other source sets the hard limit.
[[nodiscard]] Refusal check_burst(const DeviceGrant& device);

// Splits a memory limit into what is on a card of that size and what is past it in host memory. All of it is on the
// card unless the limit is oversubscribed, by a ratio or by what the card lacks.
struct MemorySplit {
  std::uint64_t card_bytes = 0, host_bytes = 0;
};
[[nodiscard]] MemorySplit split_memory(const DeviceGrant& device, std::uint64_t card_bytes);

// Checks that a card of `card_bytes` (0: unknown) can satisfy the memory limit. Refuses a limit above the card's size,
// which would limit nothing, and a percentage of less than one byte.
[[nodiscard]] Refusal check_memory(const DeviceGrant& device, std::uint64_t card_bytes);

// Formats one line for stderr: "CUDA_MEM_LIMIT_0='0m' is zero; accepted: ...". NUL-terminated, cut to fit, control
// characters replaced. Returns the length.
std::size_t describe(const Refusal& refusal, std::span<char> out);

// Returns whether a text is a valid share name (Syntax::share_name).
[[nodiscard]] bool is_share_name(std::string_view text);

}  // namespace headgate::grant
