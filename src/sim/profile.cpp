#include "sim/profile.hpp"

#include <cstdio>
#include <string_view>

#include "base/units.hpp"

namespace headgate::sim {
namespace {

template <std::size_t N>
constexpr void copy_text(char (&to)[N], std::string_view from) {
  for (std::size_t i = 0; i < N; ++i) to[i] = i < from.size() && i + 1 < N ? from[i] : '\0';
}

constexpr Profile common(std::string_view name, std::string_view model) {
  Profile made{};
  copy_text(made.name, name);
  copy_text(made.model, model);
  copy_text(made.driver_version, "535.261.03");
  made.cuda_version = 12020;
  made.count = 1;
  made.pci_first_bus = 0x17;
  made.pci_bus_step = 8;
  made.cores_per_sm = 128;
  made.max_threads_per_block = 1024;
  made.registers_per_block = 65536;
  made.shared_bytes_per_block = 48 * 1024;
  made.slice_ns = 2'000'000;
  made.block_ns = 10'000;
  made.submit_ns = 2'000;
  made.event_step_ns = 500;
  made.clock_offset_ns = 1'234'567'890'123;
  made.clock_drift_ppb = 12'000;
  made.launch_queue_depth = 1024;
  made.dependent_overlap_ns = 3'000;
  made.pool_granule_bytes = 32 * kMiB;
  made.heap_bytes = 8 * kMiB;
  return made;
}

constexpr Profile h200() {
  Profile made = common("h200", "NVIDIA H200");
  copy_text(made.vbios_version, "96.00.CF.00.01");
  made.pci_device_id = 0x233510de;
  made.pci_subsystem_id = 0x18be10de;
  made.nvml_architecture = 9;
  made.nvml_brand = 14;
  made.capability_major = 9;
  made.capability_minor = 0;
  made.sm_count = 132;
  made.max_threads_per_sm = 2048;
  made.max_blocks_per_sm = 32;
  made.shared_bytes_per_block_optin = 227 * 1024;
  made.shared_bytes_per_sm = 228 * 1024;
  made.copy_engines = 3;
  made.memory_bytes = 141 * kGiB;
  made.reserved_bytes = 620 * kMiB;
  made.context_bytes = 520 * kMiB;
  made.bar1_bytes = 256 * kGiB;
  made.memory_bus_bits = 6144;
  made.l2_bytes = static_cast<std::uint32_t>(60 * kMiB);
  made.sm_clock_idle_mhz = 345;
  made.sm_clock_max_mhz = 1980;
  made.memory_clock_idle_mhz = 3201;
  made.memory_clock_max_mhz = 3201;
  made.power_idle_mw = 76'000;
  made.power_min_mw = 200'000;
  made.power_default_mw = 700'000;
  made.power_max_mw = 700'000;
  made.temperature_idle_c = 30;
  made.temperature_full_c = 68;
  made.host_copy_bytes_per_s = 55'000'000'000;
  made.device_copy_bytes_per_s = 2'100'000'000'000;
  return made;
}

// The first driver of CUDA 13.0 (580.65.06 in its release notes), which has every function that we know.
constexpr void take_cuda13(Profile& made) {
  copy_text(made.driver_version, "580.65.06");
  made.cuda_version = 13000;
}

constexpr Profile h200_cuda13() {
  Profile made = h200();
  copy_text(made.name, "h200-cuda13");
  take_cuda13(made);
  return made;
}

// The first driver with memory limits by cgroup. Of its version only the first number is a fact.
constexpr Profile h200_r615() {
  Profile made = h200();
  copy_text(made.name, "h200-r615");
  copy_text(made.driver_version, "615.00");
  made.cuda_version = 13040;
  return made;
}

constexpr Profile l40s_x2() {
  Profile made = common("l40s-x2", "NVIDIA L40S");
  copy_text(made.vbios_version, "95.02.66.00.02");
  made.count = 2;
  made.pci_device_id = 0x26b910de;
  made.pci_subsystem_id = 0x185110de;
  made.nvml_architecture = 8;
  made.nvml_brand = 14;
  made.capability_major = 8;
  made.capability_minor = 9;
  made.sm_count = 142;
  made.max_threads_per_sm = 1536;
  made.max_blocks_per_sm = 24;
  made.shared_bytes_per_block_optin = 99 * 1024;
  made.shared_bytes_per_sm = 100 * 1024;
  made.copy_engines = 2;
  made.memory_bytes = 45 * kGiB;
  made.reserved_bytes = 596 * kMiB;
  made.context_bytes = 400 * kMiB;
  made.bar1_bytes = 64 * kGiB;
  made.memory_bus_bits = 384;
  made.l2_bytes = static_cast<std::uint32_t>(96 * kMiB);
  made.sm_clock_idle_mhz = 210;
  made.sm_clock_max_mhz = 2520;
  made.memory_clock_idle_mhz = 405;
  made.memory_clock_max_mhz = 9001;
  made.power_idle_mw = 34'000;
  made.power_min_mw = 100'000;
  made.power_default_mw = 350'000;
  made.power_max_mw = 350'000;
  made.temperature_idle_c = 29;
  made.temperature_full_c = 72;
  made.host_copy_bytes_per_s = 26'000'000'000;
  made.device_copy_bytes_per_s = 380'000'000'000;
  return made;
}

// A fictional card, small enough that a test can fill it, with the shapes of the h200 and the functions of CUDA 13.0.
constexpr Profile tiny() {
  Profile made = h200();
  copy_text(made.name, "tiny");
  take_cuda13(made);
  copy_text(made.model, "NVIDIA Simulated Tiny");
  made.sm_count = 20;
  made.memory_bytes = 2 * kGiB;
  made.reserved_bytes = 32 * kMiB;
  made.context_bytes = 64 * kMiB;
  made.bar1_bytes = 2 * kGiB;
  made.memory_bus_bits = 128;
  made.l2_bytes = static_cast<std::uint32_t>(4 * kMiB);
  made.power_idle_mw = 10'000;
  made.power_min_mw = 40'000;
  made.power_default_mw = 75'000;
  made.power_max_mw = 75'000;
  made.host_copy_bytes_per_s = 12'000'000'000;
  made.device_copy_bytes_per_s = 100'000'000'000;
  return made;
}

constexpr Profile kBuiltIn[] = {h200(), h200_cuda13(), h200_r615(), l40s_x2(), tiny()};

// SplitMix64 (Steele, Lea, Flood 2014): spreads a seed over 64 bits.
std::uint64_t spread(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// Returns the seed of a node's identities. It includes the model, so two models never share identities.
std::uint64_t identity_seed(const Profile& profile) {
  std::uint64_t mixed = spread(profile.node_seed);
  for (const char* c = profile.name; *c != 0; ++c) mixed = spread(mixed ^ static_cast<unsigned char>(*c));
  return mixed;
}

}  // namespace

std::span<const Profile> built_in_profiles() { return kBuiltIn; }

const Profile* find_profile(std::string_view name) {
  for (const Profile& profile : kBuiltIn) {
    if (name == profile.name) return &profile;
  }
  return nullptr;
}

std::array<std::uint8_t, 16> uuid_bytes(const Profile& profile, std::uint32_t index) {
  std::array<std::uint8_t, 16> made{};
  const std::uint64_t node = identity_seed(profile);
  const std::uint64_t halves[] = {spread(node + 2 * index), spread(node + 2 * index + 1)};
  for (std::size_t i = 0; i < made.size(); ++i) made[i] = static_cast<std::uint8_t>(halves[i / 8] >> (8 * (i % 8)));
  made[6] = static_cast<std::uint8_t>((made[6] & 0x0f) | 0x40);
  made[8] = static_cast<std::uint8_t>((made[8] & 0x3f) | 0x80);
  return made;
}

std::array<char, 41> uuid_text(const Profile& profile, std::uint32_t index) {
  constexpr char kDigits[] = "0123456789abcdef";
  const auto bytes = uuid_bytes(profile, index);
  std::array<char, 41> text{'G', 'P', 'U', '-'};
  std::size_t at = 4;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text[at++] = '-';
    text[at++] = kDigits[bytes[i] >> 4];
    text[at++] = kDigits[bytes[i] & 15];
  }
  return text;
}

std::uint32_t pci_bus(const Profile& profile, std::uint32_t index) {
  return (profile.pci_first_bus + index * profile.pci_bus_step) & 0xff;
}

std::array<char, 17> pci_bus_id(const Profile& profile, std::uint32_t index) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%08X:%02X:00.0", profile.pci_domain, pci_bus(profile, index));
  return text;
}

std::array<char, 13> pci_bus_id_legacy(const Profile& profile, std::uint32_t index) {
  std::array<char, 13> text{};
  std::snprintf(text.data(), text.size(), "%04X:%02X:00.0", profile.pci_domain & 0xffff, pci_bus(profile, index));
  return text;
}

std::array<char, 14> serial_number(const Profile& profile, std::uint32_t index) {
  std::array<char, 14> text{};
  const std::uint64_t digits = 1'000'000'000'000 + spread(spread(~identity_seed(profile)) + index) % 9'000'000'000'000;
  std::snprintf(text.data(), text.size(), "%013llu", static_cast<unsigned long long>(digits));
  return text;
}

}  // namespace headgate::sim
