// Parses a simulated node's profile from TOML. For the host side only: the simulator itself parses no text.
//
//   base = "h200"        # a built-in profile to start from (default h200); every other key overrides one of its values
//   name = "lab"
//   count = 4
//   model = "NVIDIA H100 80GB HBM3"
//   sms = 132
//   memory = "80GiB"     # sizes carry a unit: B, KiB, MiB, GiB
//   power_max_w = 700
//   mig = ["3g.40gb", "1g.10gb"]
//
// profile_keys() lists every key with what it accepts.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "sim/profile.hpp"

namespace headgate::config {

struct ProfileKey {
  std::string_view name;
  std::string accepted;  // "a whole number from 1 to 16"
};
[[nodiscard]] std::span<const ProfileKey> profile_keys();

// Errors: usage, "FILE:LINE: key = value: what is wrong", with what is accepted as the hint.
[[nodiscard]] Result<sim::Profile> parse_profile(std::string_view text, std::string_view file);

// Loads a built-in profile by name, or a TOML file by path (recognised by a slash or ".toml").
[[nodiscard]] Result<sim::Profile> load_profile(const std::string& name_or_path);

}  // namespace headgate::config
