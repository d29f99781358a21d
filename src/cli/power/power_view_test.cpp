#include "cli/power/power_view.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

namespace headgate::cli {
namespace {

constexpr std::uint64_t kNow = 1'800'000'000'000'000'000;

constexpr const char* kPlain = R"json({"gpus": [
  {"index": 0, "uuid": "GPU-a", "model": "NVIDIA L40S", "power_mw": 34000, "energy_mj": 7200000000,
   "requested_limit_mw": 350000, "enforced_limit_mw": 350000, "min_limit_mw": 100000, "max_limit_mw": 350000,
   "default_limit_mw": 350000, "persistence": true, "compute_mode": "default", "gpu_clocks_mhz": null,
   "mem_clocks_mhz": null, "sm_clock_mhz": 2520, "memory_clock_mhz": 9001, "throttle_reasons": [], "leases": [],
   "waiting": 0, "error": ""},
  {"index": 1, "uuid": "GPU-b", "model": "NVIDIA L40S", "power_mw": 199900, "energy_mj": 0,
   "requested_limit_mw": 200000, "enforced_limit_mw": 180000, "min_limit_mw": 100000, "max_limit_mw": 350000,
   "default_limit_mw": 350000, "persistence": false, "compute_mode": "exclusive process",
   "gpu_clocks_mhz": [210, 1200], "mem_clocks_mhz": [5001, 5001], "throttle_reasons": ["power cap"],
   "leases": [{"id": "3fa0", "controls": ["power limit", "GPU clocks"], "ends_at_s": 1800007080, "paused": false,
               "holder": "lease 3fa0 of uid 1000 (process 4711)"}], "error": ""},
  {"index": 2, "uuid": "GPU-c", "model": "NVIDIA L40S", "error": "a GPU is lost"}],
  "drift": "report", "at_start": ""})json";

PowerJson state() {
  const auto read = power_state_from(kPlain);
  EXPECT_TRUE(read);
  return read.value_or(PowerJson());
}

TEST(PowerView, HasALineForEachGpuAndNotesBelowIt) {
  EXPECT_EQ(power_status_text(state(), kNow, {}),
            "GPU        DRAWS  LIMIT  ENFORCED  RANGE      LOCKED CLOCKS    PERSISTENCE\n"
            "0  L40S     34 W  350 W     350 W  100-350 W  none             on\n"
            "1  L40S  199.9 W  200 W     180 W  100-350 W  210 to 1200 MHz  off\n"
            "2  L40S        -      -         -  -          none             -\n"
            "GPU 1: the driver enforces 180 W, not the 200 W that were asked for\n"
            "GPU 1: memory clocks locked at 5001 MHz\n"
            "GPU 1: compute mode: exclusive process\n"
            "GPU 1: slowed down by: power cap\n"
            "GPU 1: without persistence mode the driver forgets these settings with its last client\n"
            "GPU 1: power limit, GPU clocks: held by lease 3fa0 of uid 1000 (process 4711), ends in 1h58m\n"
            "GPU 2: a GPU is lost\n");
}

TEST(PowerView, FitsEightyColumns) {
  const std::string text = power_status_text(state(), kNow, {.columns = 80});
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_TRUE(
      text.contains("GPU 1: without persistence mode the driver forgets these settings with\n"
                    "       its last client\n"))
      << text;
}

TEST(PowerView, TheWideFormHasTheRest) {
  const std::string text = power_status_text(state(), kNow, {.format = Format::wide});
  for (const char* cell : {"MEMORY LOCKED", "2520", "9001", "7200 kJ", "exclusive process", "GPU-b", "5001 MHz"})
    EXPECT_TRUE(text.contains(cell)) << cell << "\n" << text;
  EXPECT_FALSE(text.contains("compute mode:")) << "it is a column";
}

TEST(PowerView, ChangesShowOldAndNewAndFailuresBelow) {
  const auto changes = power_changes_from(R"({"dry_run": false, "gpus": [
    {"index": 0, "uuid": "GPU-a", "changes": [{"control": "power limit", "from": "350 W", "to": "200 W"},
                                               {"control": "GPU clocks", "from": "", "to": "1200 MHz"},
                                               {"control": "persistence mode", "from": "on", "to": "on"}], "error": null},
    {"index": 2, "uuid": "GPU-c", "changes": [], "error": {"code": "failed", "message": "a GPU is lost", "hint": "see dmesg"}}]})");
  ASSERT_TRUE(changes);
  EXPECT_EQ(power_changes_text(*changes, state(), {}),
            "GPU       CONTROL       FROM        TO\n"
            "0 (L40S)  power limit  350 W     200 W\n"
            "0 (L40S)  GPU clocks       -  1200 MHz\n"
            "GPU 2 (L40S): a GPU is lost (see dmesg)\n");
  EXPECT_EQ(power_changes_text({}, state(), {}), "nothing differs from what is set\n");
}

TEST(PowerView, ALeaseShowsOldAndNewValues) {
  const auto lease = lease_from(R"({"id": "3fa0", "ends_at_s": 1800000060, "holder_pid": 0,
    "settings": {"GPU-a": {"power_limit_mw": 200000, "persistence": true, "gpu_clocks_mhz": [1200, 1200], "compute_mode": 3}},
    "saved": {"GPU-a": {"power_limit_mw": 350000, "persistence": false, "gpu_clocks_mhz": [0, 0], "compute_mode": 0}}})");
  ASSERT_TRUE(lease);
  EXPECT_EQ(power_changes_text(lease->gpus, state(), {}),
            "GPU       CONTROL              FROM                 TO\n"
            "0 (L40S)  power limit         350 W              200 W\n"
            "0 (L40S)  GPU clocks           none           1200 MHz\n"
            "0 (L40S)  persistence mode      off                 on\n"
            "0 (L40S)  compute mode      default  exclusive process\n");
  EXPECT_EQ(format_end(lease->ends_at_s, kNow), "ends in 1m");
  EXPECT_EQ(format_end(lease->ends_at_s, kNow + 61'000'000'000), "ends now");
}

TEST(PowerView, ProfilesAreListedInPlainText) {
  const auto profiles = power_profiles_from(R"([{"name": "quiet", "origin": "/etc/headgate/config.toml:12",
    "settings": {"power_limit": "80%", "persistence": true, "gpu_clocks_mhz": [210, 1200]}}])");
  ASSERT_TRUE(profiles);
  EXPECT_EQ(
      power_profiles_text(*profiles, {}),
      "PROFILE  SETTINGS                                                          FROM\n"
      "quiet    power limit 80%, GPU clocks 210 to 1200 MHz, persistence mode on  /etc/headgate/config.toml:12\n");
  EXPECT_TRUE(power_profiles_text(PowerJson::array(), {}).contains("[power.profile.NAME]"));
}

TEST(PowerView, AnInvalidAnswerIsAnError) {
  for (const char* text : {"", "[]", "{}", "null"}) {
    EXPECT_FALSE(power_state_from(text)) << text;
    EXPECT_FALSE(power_changes_from(text)) << text;
    EXPECT_FALSE(lease_from(text)) << text;
  }
  EXPECT_FALSE(power_profiles_from("{}"));
  const auto wrong = power_state_from(R"({"gpus": [{"index": "x", "leases": [{}], "gpu_clocks_mhz": [1]}, 7]})");
  ASSERT_TRUE(wrong);
  EXPECT_TRUE(power_status_text(*wrong, kNow, {}).contains("none")) << "values of another type count as unknown";
}

}  // namespace
}  // namespace headgate::cli
