// The GPU part of the zeusd API, over TCP and over a Unix socket.
#include <gtest/gtest.h>

#include <thread>

#include "api/test_zeusd.hpp"

namespace headgate::api {
namespace {

using nlohmann::json;
using power::Command;
using power::Operation;

struct Write {
  const char* target;  // without gpu_ids and block
  std::vector<Command> commands;
};
const std::vector<Write>& writes() {
  static const std::vector<Write> all = {
      {"/gpu/set_power_limit?power_limit_mw=200000",
       {{.operation = Operation::set_power_limit, .power_limit_mw = 200'000}}},
      {"/gpu/set_persistence_mode?enabled=false", {{.operation = Operation::set_persistence_mode, .enabled = false}}},
      {"/gpu/set_persistence_mode?enabled=true", {{.operation = Operation::set_persistence_mode, .enabled = true}}},
      {"/gpu/set_gpu_locked_clocks?min_clock_mhz=210&max_clock_mhz=1410",
       {{.operation = Operation::set_gpu_locked_clocks, .clocks = {210, 1410}}}},
      {"/gpu/set_mem_locked_clocks?min_clock_mhz=405&max_clock_mhz=1215",
       {{.operation = Operation::set_mem_locked_clocks, .clocks = {405, 1215}}}},
      {"/gpu/reset_gpu_locked_clocks?", {{.operation = Operation::reset_gpu_locked_clocks}}},
      {"/gpu/reset_mem_locked_clocks?", {{.operation = Operation::reset_mem_locked_clocks}}},
      {"/gpu/reset_locked_clocks?",
       {{.operation = Operation::reset_gpu_locked_clocks}, {.operation = Operation::reset_mem_locked_clocks}}},
  };
  return all;
}

class ZeusdGpu : public testing::TestWithParam<bool> {
 protected:
  ZeusdGpu() { bench.over_tcp = GetParam(); }
  // Blocks until all earlier commands are done.
  void barrier() { EXPECT_EQ(bench.get("/gpu/get_power_limit").status, 200); }
  ZeusdBench bench;
};
INSTANTIATE_TEST_SUITE_P(Over, ZeusdGpu, testing::Bool(),
                         [](const auto& over) { return over.param ? "Tcp" : "UnixSocket"; });

TEST_P(ZeusdGpu, ABlockingWriteReachesTheListedGpusAndNoOther) {
  for (const Write& write : writes()) {
    const auto before = bench.gpus[0].written().size();
    const auto response = bench.post(std::string(write.target) + "&gpu_ids=0%2C2&block=true");
    EXPECT_EQ(response.status, 200) << write.target << response.body;
    EXPECT_EQ(response.body, "") << write.target;
    for (const int gpu : {0, 2}) {
      auto written = bench.gpus[gpu].written();
      written.erase(written.begin(), written.begin() + static_cast<std::ptrdiff_t>(before));
      EXPECT_EQ(written, write.commands) << write.target << " of GPU " << gpu;
    }
  }
  EXPECT_TRUE(bench.gpus[1].written().empty());
  EXPECT_TRUE(bench.gpus[3].written().empty());
}

TEST_P(ZeusdGpu, ANonBlockingWriteIsDoneBeforeALaterBlockingCall) {
  for (const Write& write : writes()) {
    const auto before = bench.gpus[3].written().size();
    EXPECT_EQ(bench.post(std::string(write.target) + "&gpu_ids=3&block=false").status, 200) << write.target;
    barrier();
    auto written = bench.gpus[3].written();
    written.erase(written.begin(), written.begin() + static_cast<std::ptrdiff_t>(before));
    EXPECT_EQ(written, write.commands) << write.target;
  }
}

TEST_P(ZeusdGpu, ANonBlockingWriteAnswersWhileTheGpuIsBusy) {
  bench.gpus[0].shut();
  EXPECT_EQ(bench.post("/gpu/set_power_limit?power_limit_mw=150000&gpu_ids=0&block=false").status, 200);
  bench.gpus[0].await_caller();
  EXPECT_EQ(bench.post("/gpu/set_power_limit?power_limit_mw=160000&gpu_ids=0&block=false").status, 200);
  bench.gpus[0].open();
  barrier();
  EXPECT_EQ(bench.gpus[0].written().back().power_limit_mw, 160'000u);
}

TEST_P(ZeusdGpu, AnUnknownIndexSendsNothing) {
  for (const Write& write : writes()) {
    for (const char* block : {"true", "false"}) {
      const auto response = bench.post(std::string(write.target) + "&gpu_ids=0,4&block=" + block);
      EXPECT_EQ(response.status, 400) << write.target;
      EXPECT_EQ(bench.json(response)["error"], "GPU index 4 does not exist.");
    }
  }
  barrier();
  EXPECT_TRUE(bench.gpus[0].written().empty());
}

TEST_P(ZeusdGpu, EachParameterOfAWriteIsNeeded) {
  for (const char* target :
       {"/gpu/set_power_limit?gpu_ids=0&block=true", "/gpu/set_power_limit?power_limit_mw=1&block=true",
        "/gpu/set_power_limit?gpu_ids=0&power_limit_mw=200000", "/gpu/set_persistence_mode?gpu_ids=0&block=true",
        "/gpu/set_gpu_locked_clocks?gpu_ids=0&min_clock_mhz=1&block=true",
        "/gpu/set_mem_locked_clocks?gpu_ids=0&max_clock_mhz=1&block=true", "/gpu/reset_locked_clocks?gpu_ids=0",
        "/gpu/reset_gpu_locked_clocks?block=true", "/gpu/reset_mem_locked_clocks"}) {
    const auto response = bench.post(target);
    EXPECT_EQ(response.status, 400) << target;
    EXPECT_NE(response.body.find("missing field"), std::string::npos) << target << response.body;
  }
  EXPECT_TRUE(bench.gpus[0].written().empty());
}

TEST_P(ZeusdGpu, UnknownRepeatedAndIllTypedParametersAreRefused) {
  const std::string good = "/gpu/set_power_limit?gpu_ids=0&power_limit_mw=200000&block=true";
  const std::pair<std::string, const char*> bad[] = {
      {good + "&extra=1", "unknown field"},
      {good + "&block=true", "duplicate field"},
      {"/gpu/set_power_limit?gpu_ids=0&power_limit_mw=4294967296&block=true", "invalid"},
      {"/gpu/set_power_limit?gpu_ids=0&power_limit_mw=-5&block=true", "invalid"},
      {"/gpu/set_power_limit?gpu_ids=0&power_limit_mw=200000&block=True", "invalid"},
      {"/gpu/set_persistence_mode?gpu_ids=0&enabled=1&block=true", "invalid"},
      {"/gpu/set_power_limit?gpu_ids=&power_limit_mw=200000&block=true", "invalid"},
      {"/gpu/set_power_limit?gpu_ids=a&power_limit_mw=200000&block=true", "invalid"},
  };
  for (const auto& [target, words] : bad) {
    const auto response = bench.post(target);
    EXPECT_EQ(response.status, 400) << target;
    EXPECT_NE(response.body.find(words), std::string::npos) << target << response.body;
  }
  EXPECT_TRUE(bench.gpus[0].written().empty());
}

TEST_P(ZeusdGpu, AValueOutOfRangeNamesTheRangeAndChangesNothing) {
  const auto response = bench.post("/gpu/set_power_limit?gpu_ids=0,1&power_limit_mw=99999&block=true");
  EXPECT_EQ(response.status, 400);
  for (const char* gpu : {"0", "1"})
    EXPECT_EQ(bench.json(response)["errors"][gpu],
              "power limit 99.999 W: the driver does not accept this value (accepted: 100 W to 300 W)");
  EXPECT_EQ(bench.json(bench.get("/gpu/get_power_limit"))["0"]["power_limit_mw"], 100'000);
  EXPECT_EQ(bench.post("/gpu/set_power_limit?gpu_ids=0&power_limit_mw=99999&block=false").status, 200)
      << "no caller waits for it";
}

TEST_P(ZeusdGpu, ErrorsAreListedByGpuWithTheWorstStatus) {
  bench.gpus[1].fail_with(Operation::set_power_limit, {ErrorCode::denied, "permission denied", ""});
  const std::string target = "/gpu/set_power_limit?gpu_ids=0,1,2&power_limit_mw=200000&block=true";
  auto response = bench.post(target);
  EXPECT_EQ(response.status, 403);
  EXPECT_EQ(bench.json(response), json::parse(R"({"errors":{"1":"permission denied"}})"));
  bench.gpus[2].fail_with(Operation::set_power_limit, {ErrorCode::unreachable, "a GPU is lost", ""});
  response = bench.post(target);
  EXPECT_EQ(response.status, 500);
  EXPECT_EQ(bench.json(response)["errors"].size(), 2u);
  EXPECT_EQ(bench.gpus[0].written().size(), 2u) << "the others did it";
}

TEST_P(ZeusdGpu, ReadsAnswerAllGpusOrThoseListed) {
  EXPECT_EQ(bench.json(bench.get("/gpu/get_power_limit?gpu_ids=1")), json::parse(R"({"1":{"power_limit_mw":100000}})"));
  EXPECT_EQ(bench.json(bench.get("/gpu/get_power_limit_constraints?gpu_ids=0")),
            json::parse(R"({"0":{"min_power_limit_mw":100000,"max_power_limit_mw":300000}})"));
  EXPECT_EQ(bench.json(bench.get("/gpu/get_persistence_mode?gpu_ids=2")), json::parse(R"({"2":{"enabled":true}})"));
  EXPECT_EQ(bench.json(bench.get("/gpu/get_cumulative_energy?gpu_ids=3")),
            json::parse(R"({"3":{"energy_mj":500000}})"));
  const json power = bench.json(bench.get("/gpu/get_power"));
  EXPECT_EQ(power["power_mw"], json::parse(R"({"0":150000,"1":150000,"2":150000,"3":150000})"));
  EXPECT_GT(power["timestamp_ms"], 1'700'000'000'000);
  for (const char* path :
       {"get_power_limit", "get_power_limit_constraints", "get_persistence_mode", "get_cumulative_energy"})
    EXPECT_EQ(bench.json(bench.get("/gpu/" + std::string(path))).size(), 4u) << path;
}

TEST_P(ZeusdGpu, AReadOfAnUnknownGpuNamesIt) {
  for (const char* path : {"get_power", "get_power_limit", "get_power_limit_constraints", "get_persistence_mode",
                           "get_cumulative_energy", "stream_power"}) {
    const auto response = bench.get("/gpu/" + std::string(path) + "?gpu_ids=0,9");
    EXPECT_EQ(response.status, 400) << path;
    EXPECT_EQ(bench.json(response)["error"], "GPU 9 not found") << path;
    EXPECT_EQ(bench.get("/gpu/" + std::string(path) + "?gpu_ids=").status, 400) << path;
    EXPECT_EQ(bench.get("/gpu/" + std::string(path) + "?block=true").status, 400) << path;
  }
}

TEST_P(ZeusdGpu, AFailedReadHidesNoError) {
  bench.gpus[1].fail_with(Operation::get_power, {ErrorCode::unreachable, "a GPU is lost", ""});
  const auto response = bench.get("/gpu/get_power");
  EXPECT_EQ(response.status, 500);
  EXPECT_EQ(bench.json(response), json::parse(R"({"errors":{"1":"a GPU is lost"}})"));
  EXPECT_EQ(bench.get("/gpu/get_power?gpu_ids=0").status, 200);
}

TEST_P(ZeusdGpu, UnknownMethodsAndPathsAreNotFound) {
  EXPECT_EQ(bench.get("/gpu/set_power_limit?gpu_ids=0&power_limit_mw=200000&block=true").status, 404);
  EXPECT_EQ(bench.post("/gpu/get_power").status, 404);
  EXPECT_EQ(bench.get("/gpu/unknown").status, 404);
  EXPECT_EQ(bench.get("/").status, 404);
  EXPECT_EQ(bench.get("/").body, "");
}

TEST_P(ZeusdGpu, DiscoveryHasTheKeysOfAllClients) {
  const json found = bench.json(bench.get("/discover"));
  EXPECT_EQ(found["gpus"][1], json::parse(R"({"id":1,"name":"Test GPU 1","pci_address":"0000:01:00.0",
      "cumulative_energy_available":true,"uuid":"GPU-test-1"})"));
  EXPECT_EQ(found["gpus"].size(), 4u);
  EXPECT_EQ(found["cpus"], json::parse(R"([{"id":0,"dram_available":true},{"id":1,"dram_available":true}])"));
  EXPECT_EQ(found["enabled_api_groups"], json::parse(R"(["gpu-control","gpu-read","cpu-read"])"));
  EXPECT_EQ(found["auth_required"], false);
  EXPECT_EQ(found["gpu_ids"], json::parse("[0,1,2,3]"));
  EXPECT_EQ(found["cpu_ids"], json::parse("[0,1]"));
  EXPECT_EQ(found["dram_available"], json::parse("[true,true]"));
}

TEST_P(ZeusdGpu, TheTimeIsInMilliseconds) {
  const json time = bench.json(bench.get("/time"));
  EXPECT_GT(time["timestamp_ms"], 1'700'000'000'000);
}

TEST_P(ZeusdGpu, AStreamSendsEachGpuAtOnceEvenIfFlat) {
  for (int late = 0; late < 2; ++late) {
    const auto events = bench.events("/gpu/stream_power?gpu_ids=0,2", 2);
    ASSERT_EQ(events.size(), 2u);
    std::set<int> seen;
    for (const json& event : events) {
      EXPECT_EQ(event["power_mw"], 150'000);
      EXPECT_GT(event["timestamp_ms"], 1'700'000'000'000);
      EXPECT_EQ(event.size(), 3u);
      seen.insert(event["gpu_id"].get<int>());
    }
    EXPECT_EQ(seen, (std::set<int>{0, 2}));
  }
  EXPECT_EQ(bench.gpus[1].power_readings(), 0u) << "GPU 1 has no follower";
}

TEST_P(ZeusdGpu, AStreamSendsChanges) {
  const auto endpoint = GetParam() ? bench.server->tcp_endpoint() : bench.server->unix_endpoint();
  auto stream = http::EventSource::open(endpoint, {.target = "/gpu/stream_power?gpu_ids=3"}, std::chrono::seconds(20));
  ASSERT_TRUE(stream) << stream.error().message;
  const auto next = [&] {
    const auto event = stream->next(std::chrono::seconds(20));
    return event && *event ? json::parse((*event)->data)["power_mw"].get<int>() : -1;
  };
  EXPECT_EQ(next(), 150'000);
  bench.gpus[3].set_power(160'000);
  EXPECT_EQ(next(), 160'000);
  bench.gpus[3].fail_with(Operation::get_power, {ErrorCode::failed, "not now", ""});
  bench.gpus[3].set_power(170'000);
  bench.gpus[3].heal();
  EXPECT_EQ(next(), 170'000) << "an error in between ends nothing";
}

TEST(ZeusdDeadline, WithdrawsAndReportsCommandsThatHaveNotStarted) {
  ZeusdOptions options = ZeusdBench::all_groups();
  options.patience = std::chrono::milliseconds(50);
  ZeusdBench bench(std::move(options));
  bench.gpus[0].shut();
  EXPECT_EQ(bench.post("/gpu/set_power_limit?power_limit_mw=150000&gpu_ids=0&block=false").status, 200);
  bench.gpus[0].await_caller();
  const auto response = bench.post("/gpu/set_power_limit?power_limit_mw=200000&gpu_ids=0,1&block=true");
  EXPECT_EQ(response.status, 503);
  const auto errors = ZeusdBench::json(response)["errors"];
  EXPECT_EQ(errors.size(), 1u) << "GPU 1 did it";
  EXPECT_EQ(errors["0"], "GPU 0: withdrawn after 50 ms: commands before it have not ended, so it was not started");
  bench.gpus[0].open();
  EXPECT_EQ(bench.get("/gpu/get_power_limit").status, 200);
  EXPECT_EQ(bench.gpus[0].written().size(), 1u);
}

TEST(ZeusdQueue, AFullQueueAnswers503WithAReason) {
  ZeusdBench bench(ZeusdBench::all_groups(), 1);
  bench.gpus[0].shut();
  EXPECT_EQ(bench.post("/gpu/set_power_limit?power_limit_mw=150000&gpu_ids=0&block=false").status, 200);
  bench.gpus[0].await_caller();
  EXPECT_EQ(bench.post("/gpu/reset_locked_clocks?gpu_ids=0&block=false").status, 200);
  for (const char* block : {"true", "false"}) {
    const auto response = bench.post(std::string("/gpu/set_persistence_mode?enabled=true&gpu_ids=0,1&block=") + block);
    EXPECT_EQ(response.status, 503);
    EXPECT_NE(response.body.find("GPU 0: 1 commands wait already"), std::string::npos) << response.body;
  }
}

TEST(ZeusdWorker, AnswersWith500IfItDiesWhileOthersContinue) {
  ZeusdBench bench;
  bench.gpus[2].throw_next();
  const auto response = bench.post("/gpu/set_power_limit?power_limit_mw=200000&gpu_ids=1,2&block=true");
  EXPECT_EQ(response.status, 500);
  EXPECT_NE(response.body.find("its control thread has ended"), std::string::npos) << response.body;
  EXPECT_EQ(bench.post("/gpu/set_power_limit?power_limit_mw=200000&gpu_ids=2&block=false").status, 500);
  EXPECT_EQ(bench.post("/gpu/set_power_limit?power_limit_mw=210000&gpu_ids=1&block=true").status, 200);
}

TEST(ZeusdPermission, IsCheckedBeforeAnyGpuIsTouched) {
  ZeusdOptions options = ZeusdBench::all_groups();
  options.may_write = [](const ZeusdCaller& caller, const std::vector<std::uint32_t>& gpus,
                         const power::Command& command) -> Result<void> {
    EXPECT_TRUE(caller.peer.is_unix);
    if (gpus.front() == 0 && command.power_limit_mw >= 200'000) return {};
    return fail(ErrorCode::denied, "not this GPU", "ask an administrator");
  };
  ZeusdBench bench(std::move(options));
  EXPECT_EQ(bench.post("/gpu/set_power_limit?power_limit_mw=200000&gpu_ids=0&block=true").status, 200);
  for (const char* block : {"true", "false"}) {
    const auto response =
        bench.post(std::string("/gpu/set_power_limit?power_limit_mw=200000&gpu_ids=1&block=") + block);
    EXPECT_EQ(response.status, 403);
    EXPECT_EQ(bench.json(response)["error"], "not this GPU (ask an administrator)");
  }
  EXPECT_EQ(bench.get("/gpu/get_power_limit").status, 200) << "reads are free";
  EXPECT_TRUE(bench.gpus[1].written().empty());
}

TEST(ZeusdNeighbours, AreReadAtMostOncePer100Ms) {
  ZeusdOptions options = ZeusdBench::all_groups();
  options.reads_live = [](const ZeusdCaller&, std::optional<std::uint32_t> gpu) { return gpu == 0; };
  ZeusdBench bench(std::move(options));
  std::uint64_t calls = 0;
  const auto began = std::chrono::steady_clock::now();
  for (; calls < 20; ++calls) EXPECT_EQ(bench.get("/gpu/get_power?gpu_ids=0,1").status, 200);
  const auto passed = std::chrono::steady_clock::now() - began;
  EXPECT_EQ(bench.gpus[0].power_readings(), calls);
  EXPECT_LE(bench.gpus[1].power_readings(), 1 + static_cast<std::uint64_t>(passed / kCoarseGap));
}

}  // namespace
}  // namespace headgate::api
