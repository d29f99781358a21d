// zeusd's 64 portable tests, over TCP and over a Unix socket: the runner, and the tests of its tests/cpu.rs.
#include "api/zeusd_portable_test.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace headgate::api {
namespace {

using nlohmann::json;

std::vector<PortableCase> all_cases() {
  std::vector<PortableCase> all;
  for (const auto& cases : {portable_gpu_cases(), portable_cpu_cases(), portable_auth_cases()})
    all.insert(all.end(), cases.begin(), cases.end());
  return all;
}

using Param = std::tuple<PortableCase, bool>;
class ZeusdPortable : public testing::TestWithParam<Param> {};
INSTANTIATE_TEST_SUITE_P(Of, ZeusdPortable, testing::Combine(testing::ValuesIn(all_cases()), testing::Bool()),
                         [](const testing::TestParamInfo<Param>& one) {
                           return std::get<0>(one.param).name + (std::get<1>(one.param) ? "_Tcp" : "_UnixSocket");
                         });

TEST_P(ZeusdPortable, Holds) {
  const auto& [fact, over_tcp] = GetParam();
  ZeusdOptions options = ZeusdBench::all_groups();
  options.groups = fact.groups;
  if (fact.signs) options.key = kPortableKey;
  ZeusdBench bench(std::move(options));
  bench.over_tcp = over_tcp;
  fact.check(bench);
}

// 64, plus one of the three that inspect zeusd's process: what it checks is visible from outside here.
TEST(ZeusdPortableCases, AreComplete) { EXPECT_EQ(all_cases().size(), 65u); }

// zeusd's fake counter may go back freely; ours is a file, so a value below the last one is a wraparound.
struct Counted {
  std::uint64_t in_file, expected;
};
constexpr std::uint64_t kRange = 262'143'328'850;
constexpr Counted kCounted[] = {
    {10'000, 10'000}, {10'001, 10'001}, {12'313, 12'313}, {8'213, kRange + 8'213}, {0, 2 * kRange}};

void energy_follows(ZeusdBench& bench, bool cpu, bool dram) {
  const std::string target = std::string("/cpu/get_cumulative_energy?cpu_ids=0&cpu=") + (cpu ? "true" : "false") +
                             "&dram=" + (dram ? "true" : "false");
  for (const auto& [in_file, expected] : kCounted) {
    bench.cpus.set(0, in_file, in_file);
    const auto response = bench.get(target);
    EXPECT_EQ(response.status, 200) << response.body;
    const json one = bench.json(response)["0"];
    EXPECT_EQ(one["cpu_energy_uj"], cpu ? json(expected) : json(nullptr));
    EXPECT_EQ(one["dram_energy_uj"], dram ? json(expected) : json(nullptr));
  }
}

// Counters that advance as long as it lives, like those of zeusd's fake.
class Counting {
 public:
  explicit Counting(const CpuFiles& files) {
    thread_ = std::thread([this, &files] {
      for (std::uint64_t step = 2; !over_; ++step) {
        files.set(0, 10'000 * step, 5'000 * step);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  ~Counting() {
    over_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

void refused(ZeusdBench& bench, const std::string& target) { EXPECT_EQ(bench.get(target).status, 400) << target; }

}  // namespace

std::vector<PortableCase> portable_cpu_cases() {
  return {
      {"only_cpu_measuremnt", [](ZeusdBench& bench) { energy_follows(bench, true, false); }},
      {"only_dram_measuremnt", [](ZeusdBench& bench) { energy_follows(bench, false, true); }},
      {"both_measuremnt", [](ZeusdBench& bench) { energy_follows(bench, true, true); }},
      {"invalid_requests",
       [](ZeusdBench& bench) {
         const std::string target = "/cpu/get_cumulative_energy?cpu_ids=";
         for (const char* rest :
              {"0&cpu=true", "0&dram=true", "0&cpu=notabool&dram=true", "2&cp=true&dram=true", "2&cpu=true&dram=true"})
           refused(bench, target + rest);
       }},
      {"cpu_power_oneshot",
       [](ZeusdBench& bench) {
         const Counting counting(bench.cpus);
         json power;
         // On a busy machine the counters may not advance for a whole window.
         EXPECT_TRUE(http::eventually([&] {
           power = bench.json(bench.get("/cpu/get_power"));
           return power["power_mw"]["0"]["cpu_mw"] > 0 && power["power_mw"]["0"]["dram_mw"] > 0;
         })) << power.dump();
         EXPECT_GT(power["timestamp_ms"], 0);
       }},
      {"cpu_power_stream_receives_events",
       [](ZeusdBench& bench) {
         const json event = bench.first_event("/cpu/stream_power?cpu_ids=0");
         EXPECT_TRUE(event["timestamp_ms"].is_number());
         EXPECT_EQ(event["cpu_id"], 0);
         EXPECT_TRUE(event["cpu_mw"].is_number());
         EXPECT_TRUE(event["dram_mw"].is_number());
       }},
      {"deny_unknown_query_fields",
       [](ZeusdBench& bench) {
         refused(bench, "/cpu/get_power?gpu_ids=0");
         refused(bench, "/gpu/get_power?cpu_ids=0");
       }},
  };
}

}  // namespace headgate::api
