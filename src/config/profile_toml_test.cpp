#include "config/profile_toml.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace headgate::config {
namespace {

constexpr std::uint64_t kGiB = 1ULL << 30;

TEST(ProfileToml, AnEmptyFileIsTheDefaultNode) {
  const auto profile = parse_profile("", "lab.toml");
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_EQ(*profile, *sim::find_profile("h200"));
}

TEST(ProfileToml, EveryKeyHasItsEffect) {
  const auto profile = parse_profile(R"(
base = "l40s-x2"
name = "lab"
model = "NVIDIA Lab 9000"
driver_version = "580.65.06"
vbios_version = "1.2"
count = 4
node_seed = 77
cuda_version = 13000
pci_device_id = 0x123410de
pci_subsystem_id = 5
pci_domain = 1
pci_first_bus = 3
pci_bus_step = 2
nvml_architecture = 10
nvml_brand = 2
capability_major = 10
capability_minor = 3
sms = 7
cores_per_sm = 64
max_threads_per_sm = 2048
max_blocks_per_sm = 16
max_threads_per_block = 512
registers_per_block = 32768
copy_engines = 1
memory_bus_bits = 64
sm_clock_idle_mhz = 100
sm_clock_max_mhz = 200
memory_clock_idle_mhz = 300
memory_clock_max_mhz = 400
temperature_idle_c = 20
temperature_full_c = 90
event_step_ns = 32
clock_offset_ns = 9
launch_queue_depth = 16
slabs = 1
memory = "1.5GiB"
reserved = "16MiB"
context = "8 MiB"
heap = "4 MiB"
pool_granule = "2MiB"
bar1 = "64MiB"
l2 = "4096B"
shared_per_block = "16KiB"
shared_per_block_optin = "32KiB"
shared_per_sm = "64KiB"
power_idle_w = 1.5
power_min_w = 2
power_default_w = 3
power_max_w = 4.25
slice_us = 500
block_us = 2.5
submit_us = 0
teardown_ms = 2.5
watchdog_ms = 5000
host_launch_us = 1.25
clock_drift_ppm = -20
host_copy_gb_per_s = 1
device_copy_gb_per_s = 2
)",
                                     "lab.toml");
  ASSERT_TRUE(profile) << profile.error().message;
  const sim::Profile& p = *profile;
  EXPECT_STREQ(p.name, "lab");
  EXPECT_STREQ(p.model, "NVIDIA Lab 9000");
  EXPECT_STREQ(p.driver_version, "580.65.06");
  EXPECT_STREQ(p.vbios_version, "1.2");
  EXPECT_EQ(p.count, 4U);
  EXPECT_EQ(p.node_seed, 77U);
  EXPECT_EQ(p.cuda_version, 13000);
  EXPECT_EQ(p.pci_device_id, 0x123410deU);
  EXPECT_EQ(p.pci_subsystem_id, 5U);
  EXPECT_EQ(p.pci_domain, 1U);
  EXPECT_EQ(p.pci_first_bus, 3U);
  EXPECT_EQ(p.pci_bus_step, 2U);
  EXPECT_EQ(p.nvml_architecture, 10U);
  EXPECT_EQ(p.nvml_brand, 2U);
  EXPECT_EQ(p.capability_major, 10U);
  EXPECT_EQ(p.capability_minor, 3U);
  EXPECT_EQ(p.sm_count, 7U);
  EXPECT_EQ(p.cores_per_sm, 64U);
  EXPECT_EQ(p.max_threads_per_sm, 2048U);
  EXPECT_EQ(p.max_blocks_per_sm, 16U);
  EXPECT_EQ(p.max_threads_per_block, 512U);
  EXPECT_EQ(p.registers_per_block, 32768U);
  EXPECT_EQ(p.copy_engines, 1U);
  EXPECT_EQ(p.memory_bus_bits, 64U);
  EXPECT_EQ(p.sm_clock_idle_mhz, 100U);
  EXPECT_EQ(p.sm_clock_max_mhz, 200U);
  EXPECT_EQ(p.memory_clock_idle_mhz, 300U);
  EXPECT_EQ(p.memory_clock_max_mhz, 400U);
  EXPECT_EQ(p.temperature_idle_c, 20U);
  EXPECT_EQ(p.temperature_full_c, 90U);
  EXPECT_EQ(p.event_step_ns, 32U);
  EXPECT_EQ(p.clock_offset_ns, 9);
  EXPECT_EQ(p.launch_queue_depth, 16U);
  EXPECT_EQ(p.slab_bytes, 2U << 20);
  EXPECT_EQ(p.teardown_ns, 2'500'000U);
  EXPECT_EQ(p.watchdog_ns, 5'000'000'000U);
  EXPECT_EQ(p.memory_bytes, kGiB / 2 * 3);
  EXPECT_EQ(p.reserved_bytes, 16U << 20);
  EXPECT_EQ(p.context_bytes, 8U << 20);
  EXPECT_EQ(p.heap_bytes, 4U << 20);
  EXPECT_EQ(p.pool_granule_bytes, 2U << 20);
  EXPECT_EQ(p.bar1_bytes, 64U << 20);
  EXPECT_EQ(p.l2_bytes, 4096U);
  EXPECT_EQ(p.shared_bytes_per_block, 16U << 10);
  EXPECT_EQ(p.shared_bytes_per_block_optin, 32U << 10);
  EXPECT_EQ(p.shared_bytes_per_sm, 64U << 10);
  EXPECT_EQ(p.power_idle_mw, 1500U);
  EXPECT_EQ(p.power_min_mw, 2000U);
  EXPECT_EQ(p.power_default_mw, 3000U);
  EXPECT_EQ(p.power_max_mw, 4250U);
  EXPECT_EQ(p.slice_ns, 500'000U);
  EXPECT_EQ(p.block_ns, 2'500U);
  EXPECT_EQ(p.submit_ns, 0U);
  EXPECT_EQ(p.host_launch_ns, 1'250U);
  EXPECT_EQ(p.clock_drift_ppb, -20'000);
  EXPECT_EQ(p.host_copy_bytes_per_s, 1'000'000'000U);
  EXPECT_EQ(p.device_copy_bytes_per_s, 2'000'000'000U);
}

TEST(ProfileToml, EachBuiltInProfileObeysTheRulesForFiles) {
  for (const sim::Profile& profile : sim::built_in_profiles()) {
    const auto read = parse_profile("base = \"" + std::string(profile.name) + "\"", "x.toml");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, profile);
  }
  EXPECT_TRUE(parse_profile("count = 16", "x.toml"));
}

TEST(ProfileToml, ACardIsDividedAsListedOrNotAtAll) {
  EXPECT_EQ(parse_profile("", "x.toml")->mig_count, 0U);
  const auto cut = parse_profile("mig = [\"3g.71gb\", \"1g.18gb\", \"1g.35gb\"]", "x.toml");
  ASSERT_TRUE(cut) << cut.error().message;
  ASSERT_EQ(cut->mig_count, 3U);
  EXPECT_EQ(cut->mig[0], (sim::MigSlice{3, 4}));
  EXPECT_EQ(cut->mig[1], (sim::MigSlice{1, 1}));
  EXPECT_EQ(cut->mig[2], (sim::MigSlice{1, 2}));
  const char* one = "\"1g.18gb\"";
  std::string seven = one;
  for (int i = 1; i < 7; ++i) seven += std::string(", ") + one;
  EXPECT_EQ(parse_profile("mig = [" + seven + "]", "x.toml")->mig_count, 7U);
  EXPECT_FALSE(parse_profile("mig = [" + seven + ", " + one + "]", "x.toml"));
  EXPECT_EQ(parse_profile("base = \"tiny\"\nmig = [\"7g.2gb\"]", "x.toml")->mig[0], (sim::MigSlice{7, 8}));
}

RC_GTEST_PROP(ProfileTomlProperty, SizesAndTimesAreKeptExactly, ()) {
  const auto memory_mib = *rc::gen::inRange<std::uint64_t>(2048, 1024 * 1024 + 1);
  const auto slice_us = *rc::gen::inRange<std::uint64_t>(10, 1'000'001);
  const auto drift_ppb = *rc::gen::inRange<std::int64_t>(-1'000'000, 1'000'001);
  const auto profile =
      parse_profile("memory = \"" + std::to_string(memory_mib) + "MiB\"\nslice_us = " + std::to_string(slice_us) +
                        "\nclock_drift_ppm = " + std::to_string(static_cast<double>(drift_ppb) / 1000),
                    "x.toml");
  RC_ASSERT(profile.has_value());
  RC_ASSERT(profile->memory_bytes == memory_mib << 20);
  RC_ASSERT(profile->slice_ns == slice_us * 1000);
  RC_ASSERT(profile->clock_drift_ppb == drift_ppb);
}

struct Bad {
  std::string text, message, hint;
};
class BadProfile : public testing::TestWithParam<Bad> {};

TEST_P(BadProfile, IsRefusedWithFileLineKeyValueAndAcceptedForm) {
  const auto profile = parse_profile(GetParam().text, "lab.toml");
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().code, ErrorCode::usage);
  EXPECT_EQ(profile.error().message, GetParam().message);
  EXPECT_TRUE(profile.error().hint.starts_with(GetParam().hint)) << profile.error().hint;
}

constexpr const char* kMemory = "accepted: a size from 64MiB to 1024GiB with its unit, such as \"512MiB\"";
constexpr const char* kMig =
    "accepted: a list of 1g.18gb, 1g.35gb, 2g.35gb, 3g.71gb, 4g.71gb, 7g.141gb; 7 compute and 8 memory slices in all";
INSTANTIATE_TEST_SUITE_P(
    Table, BadProfile,
    testing::Values(
        Bad{"count = 0", "lab.toml:1: count = 0", "accepted: a whole number from 1 to 16"},
        Bad{"\ncount = 17", "lab.toml:2: count = 17", "accepted: a whole number from 1 to 16"},
        Bad{"count = 2.0", "lab.toml:1: count = 2", "accepted: a whole number from 1 to 16"},
        Bad{"count = \"2\"", "lab.toml:1: count = \"2\"", "accepted: a whole number from 1 to 16"},
        Bad{"count = [2]", "lab.toml:1: count = an array", "accepted: a whole number from 1 to 16"},
        Bad{"sms = -4", "lab.toml:1: sms = -4", "accepted: a whole number from 1 to 1024"},
        Bad{"base = \"h100\"", "lab.toml:1: base = \"h100\"",
            "accepted: one of h200, h200-cuda13, h200-r615, l40s-x2, tiny"},
        Bad{"base = 7", "lab.toml:1: base = 7", "accepted: one of h200, h200-cuda13, h200-r615, l40s-x2, tiny"},
        Bad{"memory = 1024", "lab.toml:1: memory = 1024", kMemory},
        Bad{"memory = \"1024\"", "lab.toml:1: memory = \"1024\"", kMemory},
        Bad{"memory = \"1e9GiB\"", "lab.toml:1: memory = \"1e9GiB\"", kMemory},
        Bad{"memory = \"-1GiB\"", "lab.toml:1: memory = \"-1GiB\"", kMemory},
        Bad{"memory = \"nanGiB\"", "lab.toml:1: memory = \"nanGiB\"", kMemory},
        Bad{"memory = \"GiB\"", "lab.toml:1: memory = \"GiB\"", kMemory},
        Bad{"memory = \"0.3B\"", "lab.toml:1: memory = \"0.3B\"", kMemory},
        Bad{"model = \"\"", "lab.toml:1: model = \"\"", "accepted: a text of 1 to 63 printable ASCII characters"},
        Bad{"model = \"a\\nb\"", "lab.toml:1: model = \"a\nb\"",
            "accepted: a text of 1 to 63 printable ASCII characters"},
        Bad{"name = \"12345678901234567890123456789012\"", "lab.toml:1: name = \"12345678901234567890123456789012\"",
            "accepted: a text of 1 to 31"},
        Bad{"slice_us = nan", "lab.toml:1: slice_us = nan", "accepted: a number from 10 to 1e+06"},
        Bad{"slice_us = true", "lab.toml:1: slice_us = true", "accepted: a number from 10 to 1e+06"},
        Bad{"count = 2\n# \xc3\xa4", "lab.toml:2: byte 0xc3", "accepted: ASCII, in comments too"},
        Bad{"colour = 3", "lab.toml:1: colour = 3: a profile has no such key", "accepted keys: base, name, model"},
        Bad{"[gpu]\ncount = 2", "lab.toml:1: gpu = a table: a profile has no such key", "accepted keys: base"},
        Bad{"power_min_w = 900", "lab.toml:1: power_min_w = 900: power_min_w does not fit within power_default_w",
            "accepted: power_min_w at most power_default_w"},
        Bad{"memory = \"512MiB\"", "lab.toml:1: memory = \"512MiB\": reserved does not fit within memory",
            "accepted: reserved at most memory"},
        Bad{"sm_clock_max_mhz = 100",
            "lab.toml:1: sm_clock_max_mhz = 100: sm_clock_idle_mhz does not fit within sm_clock_max_mhz",
            "accepted: sm_clock_idle_mhz at most"},
        Bad{"mig = \"3g.71gb\"", "lab.toml:1: mig = \"3g.71gb\"", kMig}, Bad{"mig = []", "lab.toml:1: mig = []", kMig},
        Bad{"mig = [3]", "lab.toml:1: mig = 3: no slice of this card", kMig},
        Bad{"mig = [\"3g.71gb\",\n\"3g.40gb\"]", "lab.toml:2: mig = \"3g.40gb\": no slice of this card", kMig},
        Bad{"mig = [\"5g.71gb\"]", "lab.toml:1: mig = \"5g.71gb\": no slice of this card", kMig},
        Bad{"mig = [\"4g.71gb\", \"4g.71gb\"]",
            "lab.toml:1: mig = \"4g.71gb\": the slices up to this one are more than a card", kMig},
        Bad{"mig = [\"3g.71gb\", \"3g.71gb\", \"1g.18gb\"]",
            "lab.toml:1: mig = \"1g.18gb\": the slices up to this one are more than a card", kMig},
        Bad{"mig = [\"3g.71gb\"]\nmemory = \"80GiB\"", "lab.toml:1: mig = \"3g.71gb\": no slice of this card",
            "accepted: a list of 1g.10gb, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb;"},
        Bad{"mig = [\"1g.6gb\"]\nbase = \"l40s-x2\"", "lab.toml:1: mig = an array: this card has no MIG",
            "accepted: on compute capability 8.0, and from 9.0 on"},
        Bad{"count = 16\npci_bus_step = 40",
            "lab.toml:2: count = 16, pci_first_bus = 23, pci_bus_step = 40: the last GPU's bus is past 255",
            "accepted: pci_first_bus"}));

TEST(ProfileToml, InvalidTomlIsRefusedWithItsLine) {
  const auto profile = parse_profile("count = 2\nsms = = 3", "lab.toml");
  ASSERT_FALSE(profile);
  EXPECT_TRUE(profile.error().message.starts_with("lab.toml:2: not TOML: ")) << profile.error().message;
  EXPECT_FALSE(parse_profile("[ = 16", "lab.toml")) << "toml++ asserts on this";
}

TEST(ProfileToml, AProfileIsFoundByNameOrPath) {
  std::string directory = (std::filesystem::temp_directory_path() / "headgate-profile-XXXXXX").string();
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  std::ofstream(directory + "/two.toml") << "count = 2\n";
  EXPECT_EQ(load_profile("tiny")->memory_bytes, 2 * kGiB);
  EXPECT_EQ(load_profile(directory + "/two.toml")->count, 2U);
  const auto missing = load_profile(directory + "/none.toml");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, "cannot read the profile " + directory + "/none.toml: No such file or directory");
  const auto unknown = load_profile("h100");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().hint,
            "accepted: one of h200, h200-cuda13, h200-r615, l40s-x2, tiny, or the path of a .toml file");
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace headgate::config
