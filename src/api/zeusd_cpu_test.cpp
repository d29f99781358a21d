// The CPU part of the zeusd API, over TCP and over a Unix socket.
#include <gtest/gtest.h>

#include "api/test_zeusd.hpp"

namespace headgate::api {
namespace {

using nlohmann::json;

class ZeusdCpu : public testing::TestWithParam<bool> {
 protected:
  ZeusdCpu() { bench.over_tcp = GetParam(); }
  ZeusdBench bench;
};
INSTANTIATE_TEST_SUITE_P(Over, ZeusdCpu, testing::Bool(),
                         [](const auto& over) { return over.param ? "Tcp" : "UnixSocket"; });

TEST_P(ZeusdCpu, EnergyIsOfTheRequestedPackages) {
  const auto energy = [&](const std::string& query) {
    return bench.json(bench.get("/cpu/get_cumulative_energy?" + query));
  };
  EXPECT_EQ(energy("cpu_ids=0&cpu=true&dram=true"),
            json::parse(R"({"0":{"cpu_energy_uj":10000,"dram_energy_uj":5000}})"));
  EXPECT_EQ(energy("cpu_ids=1&cpu=true&dram=false"),
            json::parse(R"({"1":{"cpu_energy_uj":10000,"dram_energy_uj":null}})"));
  EXPECT_EQ(energy("cpu_ids=1&cpu=false&dram=true"),
            json::parse(R"({"1":{"cpu_energy_uj":null,"dram_energy_uj":5000}})"));
  EXPECT_EQ(energy("cpu=true&dram=true").size(), 2u) << "all packages";
  bench.cpus.set(0, 30'000, 9'000);
  EXPECT_EQ(energy("cpu_ids=0&cpu=true&dram=true"),
            json::parse(R"({"0":{"cpu_energy_uj":30000,"dram_energy_uj":9000}})"));
}

TEST_P(ZeusdCpu, EnergyContinuesAcrossAWraparound) {
  (void)bench.get("/cpu/get_cumulative_energy?cpu_ids=0&cpu=true&dram=true");
  bench.cpus.set(0, 1'000, 500);
  EXPECT_EQ(bench.json(bench.get("/cpu/get_cumulative_energy?cpu_ids=0&cpu=true&dram=true")),
            json::parse(R"({"0":{"cpu_energy_uj":262143329850,"dram_energy_uj":262143329350}})"));
}

TEST_P(ZeusdCpu, MistakesAreRefused) {
  EXPECT_NE(bench.get("/cpu/get_cumulative_energy?cpu=true").body.find("missing field `dram`"), std::string::npos);
  EXPECT_NE(bench.get("/cpu/get_cumulative_energy?cpu=true&dram=no").body.find("invalid"), std::string::npos);
  EXPECT_NE(bench.get("/cpu/get_power?gpu_ids=0").body.find("unknown field"), std::string::npos);
  for (const char* target : {"/cpu/get_cumulative_energy?cpu=true&dram=true&cpu_ids=5", "/cpu/get_power?cpu_ids=0,5",
                             "/cpu/stream_power?cpu_ids=5"}) {
    const auto response = bench.get(target);
    EXPECT_EQ(response.status, 400) << target;
    EXPECT_EQ(bench.json(response)["error"], "CPU 5 not found") << target;
  }
  EXPECT_EQ(bench.get("/cpu/get_power?cpu_ids=").status, 400);
  EXPECT_EQ(bench.post("/cpu/get_power").status, 404);
}

TEST_P(ZeusdCpu, PowerIsTheMeanOfOneWindow) {
  const json power = bench.json(bench.get("/cpu/get_power"));
  EXPECT_GT(power["timestamp_ms"], 1'700'000'000'000);
  EXPECT_EQ(power["power_mw"], json::parse(R"({"0":{"cpu_mw":0,"dram_mw":0},"1":{"cpu_mw":0,"dram_mw":0}})"))
      << "the counters stand still";
}

TEST_P(ZeusdCpu, AnUnreadableCounterIsAnError) {
  bench.cpus.write("intel-rapl:1/energy_uj", "nothing");
  const auto response = bench.get("/cpu/get_cumulative_energy?cpu=true&dram=true");
  EXPECT_EQ(response.status, 500);
  EXPECT_NE(response.body.find("'nothing' is not a whole number"), std::string::npos) << response.body;
  EXPECT_EQ(bench.get("/cpu/get_cumulative_energy?cpu_ids=0&cpu=true&dram=true").status, 200);
}

TEST_P(ZeusdCpu, AStreamHasOnePackageAnEvent) {
  const auto events = bench.events("/cpu/stream_power?cpu_ids=1", 1);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["cpu_id"], 1);
  EXPECT_EQ(events[0]["cpu_mw"], 0);
  EXPECT_EQ(events[0]["dram_mw"], 0);
  EXPECT_EQ(events[0].size(), 4u);
}

}  // namespace
}  // namespace headgate::api
