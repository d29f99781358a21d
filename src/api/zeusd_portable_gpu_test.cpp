// zeusd's tests/gpu.rs: the commands that reach the GPUs, and the readings.
#include <gtest/gtest.h>

#include <thread>

#include "api/zeusd_portable_test.hpp"

namespace headgate::api {
namespace {

using nlohmann::json;
using power::ApiGroup;
using power::ClockRange;
using power::Command;
using power::Operation;

// A setting with a value derived from a number: the request, and the command that the GPU must get.
struct Setting {
  const char* path;
  std::string (*query)(unsigned i);
  Command (*command)(unsigned i);
};

std::string clocks_query(unsigned i) {
  return "min_clock_mhz=" + std::to_string(1000 + i * 100) + "&max_clock_mhz=" + std::to_string(2000 + i * 100);
}
ClockRange clocks(unsigned i) { return {1000 + i * 100, 2000 + i * 100}; }

const Setting kPersistence = {
    "set_persistence_mode", [](unsigned i) { return "enabled=" + std::string((i / 4) % 2 == 0 ? "true" : "false"); },
    [](unsigned i) { return Command{.operation = Operation::set_persistence_mode, .enabled = (i / 4) % 2 == 0}; }};
const Setting kPowerLimit = {
    "set_power_limit", [](unsigned i) { return "power_limit_mw=" + std::to_string(100'000 + i * 10'000); },
    [](unsigned i) {
      return Command{.operation = Operation::set_power_limit, .power_limit_mw = 100'000 + i * 10'000};
    }};
const Setting kGpuClocks = {"set_gpu_locked_clocks", clocks_query, [](unsigned i) {
                              return Command{.operation = Operation::set_gpu_locked_clocks, .clocks = clocks(i)};
                            }};
const Setting kMemClocks = {"set_mem_locked_clocks", clocks_query, [](unsigned i) {
                              return Command{.operation = Operation::set_mem_locked_clocks, .clocks = clocks(i)};
                            }};

int ask(ZeusdBench& bench, const Setting& setting, unsigned gpu, unsigned i, bool block) {
  return bench
      .post("/gpu/" + std::string(setting.path) + "?gpu_ids=" + std::to_string(gpu) + "&" + setting.query(i) +
            "&block=" + (block ? "true" : "false"))
      .status;
}

void single(ZeusdBench& bench, const Setting& setting) {
  EXPECT_EQ(ask(bench, setting, 0, 0, true), 200);
  EXPECT_EQ(bench.gpus[0].written(), std::vector{setting.command(0)});
}

// Ten in turn to four GPUs; then, for clocks, a reset of GPU 2.
void multiple(ZeusdBench& bench, const Setting& setting, std::optional<Operation> reset = {}) {
  std::vector<std::vector<Command>> expected(4);
  for (unsigned i = 0; i < 10; ++i) {
    EXPECT_EQ(ask(bench, setting, i % 4, i, true), 200);
    expected[i % 4].push_back(setting.command(i));
  }
  if (reset) {
    EXPECT_EQ(bench.post("/gpu/" + std::string(name_of(*reset)) + "?gpu_ids=2&block=true").status, 200);
    expected[2].push_back({.operation = *reset});
  }
  for (std::size_t gpu = 0; gpu < 4; ++gpu) EXPECT_EQ(bench.gpus[gpu].written(), expected[gpu]) << "GPU " << gpu;
}

// Ten non-blocking sets at once, then a blocking one. zeusd executes all eleven; we skip those that a later one
// replaced before they began (docs/compat.md). So each must be accepted, and none may execute after the last.
void bulk(ZeusdBench& bench, const Setting& setting) {
  std::vector<std::thread> clients;
  std::vector<int> statuses(10);
  for (unsigned i = 0; i < 10; ++i) clients.emplace_back([&, i] { statuses[i] = ask(bench, setting, 0, i, false); });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(statuses, std::vector<int>(10, 200));
  EXPECT_EQ(ask(bench, setting, 0, 10, true), 200);
  const auto written = bench.gpus[0].written();
  ASSERT_GE(written.size(), 2u);
  EXPECT_LE(written.size(), 11u);
  EXPECT_EQ(written.back(), setting.command(10));
  for (std::size_t at = 0; at + 1 < written.size(); ++at) {
    bool asked = false;
    for (unsigned i = 0; i < 10; ++i) asked = asked || written[at] == setting.command(i);
    EXPECT_TRUE(asked) << at;
  }
}

void refused(ZeusdBench& bench, const std::string& target, const char* words) {
  const auto response = bench.post("/gpu/" + target);
  EXPECT_EQ(response.status, 400) << target;
  EXPECT_TRUE(response.body.contains(words)) << target << ": " << response.body;
}

void unknown_gpu(ZeusdBench& bench, const std::string& target) {
  for (const char* block : {"true", "false"}) refused(bench, target + "&block=" + block, "GPU index 5 does not exist.");
}

void persistence_invalid(ZeusdBench& bench) {
  refused(bench, "set_persistence_mode?gpu_ids=0&disabled=false&block=true", "unknown field");
  refused(bench, "set_persistence_mode?gpu_ids=0&enabled=1&block=true", "invalid");
  unknown_gpu(bench, "set_persistence_mode?gpu_ids=5&enabled=true");
}

void power_limit_invalid(ZeusdBench& bench) {
  for (const char* limit : {"99000", "330000"})
    refused(bench, "set_power_limit?gpu_ids=0&block=true&power_limit_mw=" + std::string(limit),
            "accepted: 100 W to 300 W");
  EXPECT_EQ(bench.post("/gpu/set_power_limit?gpu_ids=0&block=false&power_limit_mw=10000").status, 200);
  refused(bench, "set_power_limit?gpu_ids=0&power_limit_wwww=100000&block=true", "unknown field");
  unknown_gpu(bench, "set_power_limit?gpu_ids=5&power_limit_mw=100000");
  EXPECT_EQ(bench.get("/gpu/get_power_limit").status, 200) << "all before it has been done";
  EXPECT_TRUE(bench.gpus[0].written().empty());
}

void clocks_invalid(ZeusdBench& bench, const std::string& domain) {
  refused(bench, "set_" + domain + "_locked_clocks?gpu_ids=0&min_clock_mhz=1000&max_clock_khz=1100&block=true",
          "unknown field");
  refused(bench, "set_" + domain + "_locked_clocks?gpu_ids=0&min_clock_mhz=1000&max_clock_mhz=abc&block=true",
          "invalid");
  refused(bench, "reset_" + domain + "_locked_clocks?gpu_ids=0&lego=false", "unknown field");
  unknown_gpu(bench, "reset_" + domain + "_locked_clocks?gpu_ids=5");
}

void reset_locked_clocks(ZeusdBench& bench) {
  EXPECT_EQ(bench.post("/gpu/reset_locked_clocks?gpu_ids=0&block=true").status, 200);
  EXPECT_EQ(bench.gpus[0].written(), (std::vector<Command>{{.operation = Operation::reset_gpu_locked_clocks},
                                                           {.operation = Operation::reset_mem_locked_clocks}}));
}

// One GPU's reading, then the same for all four.
void reads(ZeusdBench& bench, const std::string& path, const json& answer) {
  EXPECT_EQ(bench.json(bench.get("/gpu/" + path + "?gpu_ids=0")), json({{"0", answer}}));
  EXPECT_EQ(bench.json(bench.get("/gpu/" + path)), json({{"0", answer}, {"1", answer}, {"2", answer}, {"3", answer}}));
}

void unknown_gpu_is_not_read(ZeusdBench& bench) {
  for (const char* path : {"get_power_limit", "get_power_limit_constraints", "get_persistence_mode"})
    EXPECT_EQ(bench.get("/gpu/" + std::string(path) + "?gpu_ids=99").status, 400) << path;
}

void power_is_read(ZeusdBench& bench, const std::string& query, const std::vector<std::string>& gpus) {
  const auto response = bench.get("/gpu/get_power" + query);
  EXPECT_EQ(response.status, 200);
  const json body = bench.json(response);
  EXPECT_TRUE(body["timestamp_ms"].is_number());
  std::vector<std::string> keys;
  for (const auto& [key, power] : body["power_mw"].items()) keys.push_back(key);
  EXPECT_EQ(keys, gpus);
}

void stream_receives_events(ZeusdBench& bench) {
  const json event = bench.first_event("/gpu/stream_power?gpu_ids=0");
  EXPECT_TRUE(event["timestamp_ms"].is_number());
  EXPECT_EQ(event["gpu_id"], 0);
  EXPECT_EQ(event["power_mw"], 150'000);
}

void only_the_followed_gpu_is_read(ZeusdBench& bench) {
  (void)bench.first_event("/gpu/stream_power?gpu_ids=1");
  EXPECT_EQ(bench.gpus[0].power_readings(), 0u);
  EXPECT_GT(bench.gpus[1].power_readings(), 0u);
}

void discover(ZeusdBench& bench) {
  const json body = bench.json(bench.get("/discover"));
  ASSERT_EQ(body["gpus"].size(), 4u);
  EXPECT_EQ(body["gpus"][0]["id"], 0);
  EXPECT_EQ(body["gpus"][0]["name"], "Test GPU 0");
  EXPECT_EQ(body["gpus"][0]["pci_address"], "0000:00:00.0");
  EXPECT_EQ(body["gpus"][0]["cumulative_energy_available"], true);
  EXPECT_FALSE(body["gpus"][0].contains("vendor"));
  ASSERT_EQ(body["cpus"].size(), 2u) << "zeusd's fake has one";
  EXPECT_EQ(body["cpus"][0]["id"], 0);
  EXPECT_EQ(body["cpus"][0]["dram_available"], true);
  EXPECT_EQ(body["enabled_api_groups"].size(), 3u);
}

void read_only(ZeusdBench& bench) {
  EXPECT_EQ(bench.get("/gpu/get_power").status, 200);
  EXPECT_EQ(bench.get("/gpu/get_cumulative_energy?gpu_ids=0").status, 200);
  EXPECT_EQ(ask(bench, kPowerLimit, 0, 0, true), 404);
  EXPECT_EQ(ask(bench, kPersistence, 0, 0, true), 404);
  EXPECT_EQ(bench.get("/cpu/get_cumulative_energy?cpu_ids=0&cpu=true&dram=false").status, 404);
  const json body = bench.json(bench.get("/discover"));
  EXPECT_EQ(body["enabled_api_groups"], json::parse(R"(["gpu-read"])"));
  EXPECT_EQ(body["gpus"].size(), 4u);
  EXPECT_EQ(body["cpus"].size(), 0u);
}

void control_only(ZeusdBench& bench) {
  EXPECT_EQ(ask(bench, kPersistence, 0, 0, true), 200);
  for (const char* path : {"get_power", "get_power_limit", "get_power_limit_constraints", "get_persistence_mode"})
    EXPECT_EQ(bench.get("/gpu/" + std::string(path)).status, 404) << path;
}

void no_gpu_groups(ZeusdBench& bench) {
  const json body = bench.json(bench.get("/discover"));
  EXPECT_EQ(body["gpus"].size(), 0u);
  EXPECT_EQ(body["gpu_ids"].size(), 0u);
  ASSERT_EQ(body["cpus"].size(), 2u);
  EXPECT_EQ(body["cpus"][0]["dram_available"], true);
  EXPECT_EQ(body["enabled_api_groups"], json::parse(R"(["cpu-read"])"));
}

}  // namespace

std::vector<PortableCase> portable_gpu_cases() {
  const json range = {{"min_power_limit_mw", 100'000}, {"max_power_limit_mw", 300'000}};
  return {
      {"set_persistence_mode_single", [](ZeusdBench& bench) { single(bench, kPersistence); }},
      {"set_persistence_mode_multiple", [](ZeusdBench& bench) { multiple(bench, kPersistence); }},
      {"set_persistence_mode_invalid", persistence_invalid},
      {"set_persistence_mode_bulk", [](ZeusdBench& bench) { bulk(bench, kPersistence); }},
      {"set_power_limit_single", [](ZeusdBench& bench) { single(bench, kPowerLimit); }},
      {"set_power_limit_multiple", [](ZeusdBench& bench) { multiple(bench, kPowerLimit); }},
      {"set_power_limit_invalid", power_limit_invalid},
      {"set_power_limit_bulk", [](ZeusdBench& bench) { bulk(bench, kPowerLimit); }},
      {"gpu_locked_clocks_single", [](ZeusdBench& bench) { single(bench, kGpuClocks); }},
      {"gpu_locked_clocks_multiple",
       [](ZeusdBench& bench) { multiple(bench, kGpuClocks, Operation::reset_gpu_locked_clocks); }},
      {"gpu_locked_clocks_invalid", [](ZeusdBench& bench) { clocks_invalid(bench, "gpu"); }},
      {"gpu_locked_clocks_bulk", [](ZeusdBench& bench) { bulk(bench, kGpuClocks); }},
      {"mem_locked_clocks_single", [](ZeusdBench& bench) { single(bench, kMemClocks); }},
      {"mem_locked_clocks_multiple",
       [](ZeusdBench& bench) { multiple(bench, kMemClocks, Operation::reset_mem_locked_clocks); }},
      {"mem_locked_clocks_invalid", [](ZeusdBench& bench) { clocks_invalid(bench, "mem"); }},
      {"mem_locked_clocks_bulk", [](ZeusdBench& bench) { bulk(bench, kMemClocks); }},
      {"reset_locked_clocks", reset_locked_clocks},
      {"gpu_cumulative_energy", [](ZeusdBench& b) { reads(b, "get_cumulative_energy", {{"energy_mj", 500'000}}); }},
      {"gpu_get_power_limit", [](ZeusdBench& b) { reads(b, "get_power_limit", {{"power_limit_mw", 100'000}}); }},
      {"gpu_get_power_limit_constraints",
       [range](ZeusdBench& bench) { reads(bench, "get_power_limit_constraints", range); }},
      {"gpu_get_persistence_mode", [](ZeusdBench& b) { reads(b, "get_persistence_mode", {{"enabled", true}}); }},
      {"gpu_read_endpoints_reject_unknown_gpu", unknown_gpu_is_not_read},
      {"gpu_power_oneshot", [](ZeusdBench& bench) { power_is_read(bench, "", {"0", "1", "2", "3"}); }},
      {"gpu_power_oneshot_filtered", [](ZeusdBench& bench) { power_is_read(bench, "?gpu_ids=0,2", {"0", "2"}); }},
      {"gpu_power_oneshot_has_all_gpus", [](ZeusdBench& bench) { power_is_read(bench, "", {"0", "1", "2", "3"}); }},
      {"gpu_power_oneshot_returns_promptly_with_stable_mock",
       [](ZeusdBench& bench) {
         for (int i = 0; i < 10; ++i) EXPECT_EQ(bench.get("/gpu/get_power").status, 200);
       }},
      {"gpu_power_stream_receives_events", stream_receives_events},
      {"gpu_power_polls_only_subscribed_gpu", only_the_followed_gpu_is_read},
      {"discover_endpoint", discover},
      {"gpu_read_only_mode", read_only, {ApiGroup::gpu_read}},
      {"gpu_control_only_mode", control_only, {ApiGroup::gpu_control}},
      {"discover_with_no_gpu_groups", no_gpu_groups, {ApiGroup::cpu_read}},
  };
}

}  // namespace headgate::api
