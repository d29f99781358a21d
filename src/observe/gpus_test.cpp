#include "observe/gpus.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>

#include "observe/driver_samples.hpp"
#include "observe/test_nvml.hpp"

namespace headgate::observe {
namespace {

using namespace std::chrono_literals;

class DriverGpus : public ::testing::Test {
 protected:
  DriverGpus()
      : library_(nvml::Library::open(SCRIPTED_NVML).value()),
        script_(*reinterpret_cast<Script* (*)()>(::dlsym(::dlopen(SCRIPTED_NVML, RTLD_NOW), "scripted_nvml"))()) {
    script_ = {};
  }
  snapshot::Gpu read() { return read_driver(library_, 0).value().gpus.at(0); }

  nvml::Library library_;
  Script& script_;
};

TEST_F(DriverGpus, EachFigureHasItsOwnName) {
  script_.board = ScriptedBoard{.busy = 87,
                                .memory_busy = 31,
                                .celsius = 64,
                                .milliwatts = 412'500,
                                .limit_milliwatts = 700'000,
                                .clocks_mhz = {1'111, 1'755, 2'619, 1'333},
                                .millijoules = 123'456'789,
                                .slowed_by = 0,
                                .pcie_generation = 5,
                                .pcie_width = 16,
                                .compute_mode = 3,
                                .ecc = true};
  const auto gpu = read();
  EXPECT_EQ(gpu.busy_ratio, 0.87);
  EXPECT_EQ(gpu.memory_busy_ratio, 0.31);
  EXPECT_EQ(gpu.temperature_celsius, 64u);
  EXPECT_EQ(gpu.power_mw, 412'500u);
  EXPECT_EQ(gpu.power_limit_mw, 700'000u);
  EXPECT_EQ(gpu.sm_clock_mhz, 1'755u);
  EXPECT_EQ(gpu.memory_clock_mhz, 2'619u);
  EXPECT_EQ(gpu.energy_mj, 123'456'789u);
  EXPECT_TRUE(gpu.throttle_reasons.empty());
  EXPECT_EQ(gpu.pcie_generation, 5u);
  EXPECT_EQ(gpu.pcie_width, 16u);
  EXPECT_EQ(gpu.compute_mode, "exclusive process");
  EXPECT_EQ(gpu.ecc, true) << "what is in force, not what will be after a reset";
  script_.board->compute_mode = 2;
  EXPECT_EQ(read().compute_mode, "prohibited");
}

// nvml.h: nvmlClocksThrottleReason*. 0x1 (idle), 0x2 (application clocks) and 0x100 (display clocks) are requested.
TEST_F(DriverGpus, EachThrottleReasonOfTheDriverIsReported) {
  const std::pair<unsigned long long, const char*> kReasons[] = {{0x4, "power cap"},         {0x8, "hardware slowdown"},
                                                                 {0x10, "sync boost"},       {0x20, "software thermal"},
                                                                 {0x40, "hardware thermal"}, {0x80, "power brake"}};
  for (const auto& [bit, words] : kReasons) {
    script_.board = ScriptedBoard{.slowed_by = bit | 0x103};
    EXPECT_EQ(read().throttle_reasons, std::vector<std::string>{words}) << bit;
  }
  script_.board->slowed_by = 0x44;
  EXPECT_EQ(read().throttle_reasons, (std::vector<std::string>{"power cap", "hardware thermal"}));
}

TEST_F(DriverGpus, MemoryErrorsAreReportedByKindAndSpan) {
  script_.ecc_errors = {{{11, 12}, {21, 22}}};
  const auto gpu = read();
  EXPECT_EQ(gpu.ecc_corrected_errors, 11u);
  EXPECT_EQ(gpu.ecc_lifetime_corrected_errors, 12u);
  EXPECT_EQ(gpu.ecc_uncorrected_errors, 21u);
  EXPECT_EQ(gpu.ecc_lifetime_uncorrected_errors, 22u);
}

TEST_F(DriverGpus, ActiveLinksAndAllLinkErrorsAreCounted) {
  script_.nvlinks = {{.active = true, .errors = {1, 0, 2, 0}}, {.active = false, .errors = {4, 0, 0, 0}}};
  const auto gpu = read();
  EXPECT_EQ(gpu.nvlinks_active, 1u);
  EXPECT_EQ(gpu.nvlink_errors, 7u) << "a kind that the driver does not count is no reason to tell of none";
  EXPECT_EQ(gpu.nvlink_tx_bytes, std::nullopt) << "a driver that answers for each field by itself";
  script_.nvlink_kib = {{3, 1ull << 40}};
  EXPECT_EQ(read().nvlink_tx_bytes, 3072u);
  EXPECT_EQ(read().nvlink_rx_bytes, 1ull << 50);
  script_.pcie_replays = 5;
  EXPECT_EQ(read().pcie_replays, 5u);
}

TEST_F(DriverGpus, SmActivityIsBetweenTwoSamplesAndNoneIsKept) {
  script_.sm_util = {25, 100.5, NAN};
  SmActivity activity;
  const auto ratio_at = [&](std::chrono::milliseconds time) {
    std::vector gpus = {read()};
    activity.measure(library_, gpus, std::chrono::steady_clock::time_point(time));
    return gpus[0].sm_active_ratio;
  };
  EXPECT_EQ(ratio_at(0ms), std::nullopt) << "of one sample";
  EXPECT_EQ(ratio_at(1000ms), 0.25);
  EXPECT_EQ(ratio_at(1200ms), 0.25) << "too early for another";
  EXPECT_EQ(ratio_at(2000ms), 1.0);
  EXPECT_EQ(ratio_at(3000ms), std::nullopt);
  activity.forget(library_);
  EXPECT_EQ(script_.samples_held, 0);
  script_.sm_util.reset();
  EXPECT_EQ(ratio_at(4000ms), std::nullopt);
  EXPECT_EQ(script_.samples_held, 0);
}

TEST_F(DriverGpus, AFailedSampleEndsNoFigure) {
  script_.sm_util = {25};
  SmActivity activity;
  const auto ratio_at = [&](std::chrono::milliseconds time, abi::nvmlReturn_t result) {
    script_.sm_sample_result = static_cast<unsigned>(result);
    std::vector gpus = {read()};
    activity.measure(library_, gpus, std::chrono::steady_clock::time_point(time));
    return gpus[0].sm_active_ratio;
  };
  EXPECT_EQ(ratio_at(0ms, abi::NVML_ERROR_UNKNOWN), std::nullopt);
  EXPECT_EQ(ratio_at(1000ms, abi::NVML_SUCCESS), std::nullopt) << "of the first that there is";
  EXPECT_EQ(ratio_at(2000ms, abi::NVML_ERROR_UNKNOWN), std::nullopt) << "what was once true";
  EXPECT_EQ(ratio_at(3000ms, abi::NVML_SUCCESS), 0.25);
  EXPECT_EQ(ratio_at(4000ms, abi::NVML_ERROR_NOT_SUPPORTED), std::nullopt);
  EXPECT_EQ(ratio_at(5000ms, abi::NVML_SUCCESS), std::nullopt) << "a card that has none is not asked again";
  activity.forget(library_);
  EXPECT_EQ(script_.samples_held, 0);
}

TEST_F(DriverGpus, WorkIsSeenForAnyNumberOfSamples) {
  script_.compute = {{{.pid = 41, .bytes = 1 << 20}}};
  for (unsigned i = 0; i < 1000; ++i) script_.utilization.push_back({100 + i, 1});
  script_.utilization.push_back({41, 80});
  const auto snapshot = read_driver(library_, 0).value();
  ASSERT_EQ(snapshot.processes.size(), 1u);
  EXPECT_TRUE(snapshot.processes[0].at_work);
  EXPECT_EQ(snapshot.processes[0].busy_ratio, 0.8);
}

TEST_F(DriverGpus, VideoEnginesAreSeenAtWork) {
  script_.video_percent = {{40, 75}};
  EXPECT_EQ(read().encoder_busy_ratio, 0.4);
  EXPECT_EQ(read().decoder_busy_ratio, 0.75);
}

TEST_F(DriverGpus, MissingFeaturesAreNotReportedAsZero) {
  const auto gpu = read();
  EXPECT_EQ(gpu.busy_ratio, std::nullopt);
  EXPECT_EQ(gpu.temperature_celsius, std::nullopt);
  EXPECT_EQ(gpu.power_mw, std::nullopt);
  EXPECT_EQ(gpu.sm_clock_mhz, std::nullopt);
  EXPECT_EQ(gpu.energy_mj, std::nullopt);
  EXPECT_EQ(gpu.pcie_generation, std::nullopt);
  EXPECT_EQ(gpu.ecc_corrected_errors, std::nullopt);
  EXPECT_EQ(gpu.ecc_lifetime_uncorrected_errors, std::nullopt);
  EXPECT_EQ(gpu.pcie_replays, std::nullopt);
  EXPECT_EQ(gpu.encoder_busy_ratio, std::nullopt);
  EXPECT_EQ(gpu.nvlinks_active, std::nullopt);
  EXPECT_EQ(gpu.nvlink_errors, std::nullopt);
  EXPECT_EQ(gpu.nvlink_rx_bytes, std::nullopt);
  EXPECT_EQ(gpu.mig, std::nullopt);
  EXPECT_TRUE(gpu.mig_instances.empty());
  PcieTraffic traffic;
  std::vector gpus = {gpu};
  traffic.measure(library_, gpus, {});
  traffic.fill(gpus);
  EXPECT_EQ(gpus[0].pcie_rx_bytes_per_second, std::nullopt);
}

TEST_F(DriverGpus, TheSlicesOfADividedCardAreListed) {
  script_.slices = {"", "MIG-b", "", "MIG-d"};
  const auto gpu = read();
  EXPECT_EQ(gpu.mig, true);
  ASSERT_EQ(gpu.mig_instances.size(), 2u);
  EXPECT_EQ(gpu.mig_instances[1], (snapshot::MigInstance{.uuid = "MIG-d",
                                                         .profile = "1g.8gb",
                                                         .gpu_instance = 4,
                                                         .compute_instance = 0,
                                                         .memory_total_bytes = kScriptedTotal / 8,
                                                         .memory_used_bytes = 3}));
}

TEST_F(DriverGpus, SlowTrafficMeasurementsAreOneGpuASecond) {
  script_.gpus = 2;
  script_.pcie_kib_per_s = {{100, 200}};
  PcieTraffic traffic;
  std::vector gpus = read_driver(library_, 0).value().gpus;
  ASSERT_EQ(gpus.size(), 2u);
  const std::chrono::steady_clock::time_point start(1h);
  const auto look = [&](std::chrono::milliseconds after) {
    traffic.measure(library_, gpus, start + after);
    traffic.fill(gpus);
    return script_.traffic_asked;
  };
  EXPECT_EQ(look(0ms), 2u) << "one GPU, both ways";
  EXPECT_EQ(gpus[0].pcie_tx_bytes_per_second, 100u * 1024);
  EXPECT_EQ(gpus[0].pcie_rx_bytes_per_second, 200u * 1024);
  EXPECT_EQ(gpus[1].pcie_rx_bytes_per_second, std::nullopt);
  EXPECT_EQ(look(999ms), 2u);
  EXPECT_EQ(look(1000ms), 4u);
  EXPECT_EQ(gpus[1].pcie_rx_bytes_per_second, 200u * 1024);
  script_.pcie_kib_per_s.reset();
  EXPECT_EQ(look(2000ms), 6u);
  EXPECT_EQ(gpus[0].pcie_rx_bytes_per_second, std::nullopt) << "what was once true";
  EXPECT_EQ(gpus[1].pcie_rx_bytes_per_second, 200u * 1024);
}

}  // namespace
}  // namespace headgate::observe
