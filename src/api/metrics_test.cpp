#include "api/metrics.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace headgate::api {
namespace {

using snapshot::Gpu;
using snapshot::Process;
using snapshot::Share;
using snapshot::ShareDevice;
using snapshot::Snapshot;

Gpu l40s() {
  Gpu gpu;
  gpu.uuid = "GPU-9c2f";
  gpu.model = "NVIDIA L40S";
  gpu.half_precision_tflops = 362;
  gpu.pci_bus_id = "00000000:1B:00.0";
  gpu.memory_total_bytes = 48305799168;
  gpu.memory_used_bytes = 17179869184;
  gpu.memory_free_bytes = 30601641984;
  gpu.memory_reserved_bytes = 524288000;
  gpu.memory_unattributed_bytes = 2147483648;
  gpu.memory_committed_bytes = 25769803776;
  gpu.memory_shares_bytes = 15032385536;
  gpu.unlimited_shares = 1;
  gpu.compute_committed_ratio = 0.8;
  gpu.busy_ratio = 0.93;
  gpu.memory_busy_ratio = 0.41;
  gpu.encoder_busy_ratio = 0.25;
  gpu.decoder_busy_ratio = 0.12;
  gpu.sm_active_ratio = 0.62;
  gpu.power_mw = 298125;
  gpu.power_limit_mw = 300000;
  gpu.power_limit_requested_mw = 310000;
  gpu.power_limit_min_mw = 100000;
  gpu.power_limit_max_mw = 350000;
  gpu.persistence = true;
  gpu.energy_mj = 123456789;
  gpu.temperature_celsius = 71;
  gpu.sm_clock_mhz = 2520;
  gpu.memory_clock_mhz = 9001;
  gpu.throttle_reasons = {"power cap"};
  gpu.ecc_corrected_errors = 12;
  gpu.ecc_uncorrected_errors = 0;
  gpu.ecc_lifetime_corrected_errors = 345;
  gpu.ecc_lifetime_uncorrected_errors = 1;
  gpu.xids = {{31, 2}, {79, 1}};
  gpu.pcie_generation = 4;
  gpu.pcie_width = 16;
  gpu.pcie_replays = 7;
  gpu.pcie_rx_bytes_per_second = 1'048'576;
  gpu.pcie_tx_bytes_per_second = 2'097'152;
  gpu.nvlinks_active = 18;
  gpu.nvlink_errors = 2;
  gpu.nvlink_rx_bytes = 3'072;
  gpu.nvlink_tx_bytes = 1'024;
  gpu.ecc = true;
  gpu.mig = false;
  gpu.mps_clients = 3;
  gpu.waiting = 4;
  return gpu;
}

ShareDevice half_a_gpu() {
  ShareDevice device;
  device.uuid = "GPU-9c2f";
  device.memory_limit_bytes = 17179869184;
  device.memory_used_bytes = 15032385536;
  device.memory_residual_bytes = 429496729;
  device.memory_draining_bytes = 1048576;
  device.memory_peak_bytes = 16106127360;
  device.host_limit_bytes = 4294967296;
  device.refusals = 6;
  device.refusals_device_full = 2;
  device.refusals_policy = 1;
  device.compute_ceiling_ratio = 0.8;
  device.compute_guarantee_ratio = 0.5;
  device.weight = 100;
  device.priority_class = "normal";
  device.held_ns = 3'600'500'000'000;
  device.estimated_ns = 1'250'000'000;
  device.throttled_ns = 77'000'000'000;
  device.throttled_launches = 4096;
  device.waited_ceiling_ns = 70'000'000'000;
  device.waited_turn_ns = 5'000'000'000;
  device.waited_work_ns = 2'000'000'000;
  device.waited_pause_ns = 500'000'000;
  device.passed_in_debt = 5;
  device.launch_delays = {{10'000, 10'000'000}, {500'000, 96}, {20'000'000, 3'990}, {std::nullopt, 10}};
  device.hook_errors = {{"cuEventRecord", 2}};
  return device;
}

Snapshot lab() {
  Snapshot s;
  s.taken_unix_ns = 1'795'000'000'500'000'000;
  s.taken_ns = 50'000'000'000;
  s.node.name = "lab-3";
  s.node.version = "0.1.0";
  s.node.driver_version = "580.95";
  s.node.simulated = true;
  s.node.level = "observe";
  s.node.shares = 3;
  s.node.unattended_processes = 1;
  s.node.started_unix_ns = 1'794'990'000'000'000'000;
  s.node.reserve_bytes = 536870912;
  Gpu lost;  // does not answer
  lost.index = 1;
  lost.model = "does not answer: GPU is lost";
  s.gpus = {l40s(), lost};
  Share alice;
  alice.name = "alice.train";
  alice.owner = "alice";
  alice.state = "throttled";
  alice.level = "hook+container";
  alice.ttl_ns = 90'000'000'000;
  alice.processes = 1;
  alice.devices = {half_a_gpu()};
  Share bob;
  bob.name = "bob";
  bob.owner = "bob";
  bob.state = "idle";
  bob.level = "observe";
  bob.idle_ns = 11'520'000'000'000;
  bob.devices.resize(1);
  bob.devices[0].uuid = "GPU-9c2f";
  bob.devices[0].priority_class = "best-effort";
  bob.devices[0].memory_frozen_bytes = 1073741824;
  bob.devices[0].host_used_bytes = 2097152;
  bob.frozen_processes = 2;
  bob.freezes = 9;
  bob.thaws = 7;
  Share carol;
  carol.name = "carol";
  carol.owner = "1003";
  carol.state = "broken";
  carol.level = "hook";
  carol.problem = "its pages are of another version";
  s.shares = {alice, bob, carol};
  Process trainer;
  trainer.pid = 48121;
  trainer.share = "alice.train";
  trainer.where = "pod ml/train-0";
  trainer.finding = "it goes around the limiter";
  s.processes = {trainer};
  return s;
}

DaemonFigures own() {
  DaemonFigures figures;
  figures.now_ns = 50'250'000'000;
  figures.driver_answered_ns = 50'000'000'000;
  figures.sums.clients = 2;
  figures.sums.scrape_seconds = 0.0004;
  figures.sums.standing =
      Standing{.ready = true,
               .events_saved = false,
               .events_kept = 4096,
               .directories = {{"runtime", 402653184, 536870912}, {"state", 1073741824, 8589934592}}};
  mps::GroupView& group = figures.sums.mps.emplace_back();
  group.key = {"GPU-9c2f", 1000};
  group.state = mps::ServerState::fault;
  group.holders.resize(3);
  group.clients = {71, 72};
  group.servers = 1;
  group.restarts = 4;
  figures.sums.throttled_seconds = {{{"GPU-9c2f", "power cap"}, 12.5}};
  figures.sums.unattributed_energy = {{"GPU-9c2f", 750.25}};
  figures.sums.share_energy = {{{"alice.train", "GPU-9c2f", "exclusive"}, 1250.5},
                               {{"alice.train", "GPU-9c2f", "model"}, 99},
                               {{"gone", "GPU-9c2f", "model"}, 1}};
  figures.sums.events = {{"memory.refused", 3}, {"share.adopted", 2}, {"share.restored", 4}, {"share.broken", 1}};
  figures.cpu_seconds = 1.75;
  figures.resident_bytes = 20971520;
  figures.open_files = 31;
  figures.decisions = {.sum_seconds = 0.0125, .buckets = {{1e-05, 1400}, {2e-05, 1490}, {HUGE_VAL, 1500}}};
  figures.wakes = {.sum_seconds = 0.0075, .buckets = {{1e-05, 700}, {HUGE_VAL, 750}}};
  figures.gate_changes = 1200;
  figures.doorbell_rings = 40;
  return figures;
}

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Returns the value of the only sample line that begins with `series`; empty if there is none.
std::string sample(const std::string& page, const std::string& series) {
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(series + " ")) return line.substr(series.size() + 1);
  }
  return "";
}

TEST(Metrics, ThePageMatchesItsReference) {
  const std::string page = metrics_page(lab(), own());
  const std::string made = testing::TempDir() + "headgate-metrics." + std::to_string(::getpid());
  if (page != text_of(GOLDEN_PAGE)) std::ofstream(made) << page;
  EXPECT_TRUE(page == text_of(GOLDEN_PAGE)) << "diff " GOLDEN_PAGE " " << made << "; if it is meant, move it there";
}

TEST(Metrics, BoardsForNvidiasExporterFindItsNamesUnitsAndLabels) {
  const std::string page = dcgm_page(lab());
  const std::string labels =
      R"({gpu="0",UUID="GPU-9c2f",pci_bus_id="00000000:1B:00.0",device="nvidia0",modelName="NVIDIA L40S",hostname="lab-3"})";
  EXPECT_EQ(sample(page, "DCGM_FI_DEV_FB_USED" + labels), "16384");
  EXPECT_EQ(sample(page, "DCGM_FI_DEV_GPU_UTIL" + labels), "93");
  EXPECT_EQ(sample(page, "DCGM_FI_DEV_ENC_UTIL" + labels), "25");
  EXPECT_EQ(sample(page, "DCGM_FI_DEV_DEC_UTIL" + labels), "12");
  EXPECT_EQ(sample(page, "DCGM_FI_DEV_POWER_USAGE" + labels), "298.125");
  EXPECT_EQ(sample(page, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" + labels), "123456789");
  EXPECT_EQ(sample(page, "DCGM_FI_DEV_GPU_TEMP" + labels), "71");
  EXPECT_EQ(sample(page, "DCGM_FI_DEV_SM_CLOCK" + labels), "2520");
  EXPECT_EQ(page.find("gpu=\"1\""), std::string::npos) << "figures of a GPU that does not answer";
}

TEST(Metrics, ForeignNamesNeitherForgeASeriesNorBreakThePage) {
  Snapshot s = lab();
  s.shares[0].owner = "a\"} 1\nheadgate_gpu_power_watts{uuid=\"x";
  s.shares[0].name = "back\\slash";
  s.processes[0].share = s.shares[0].name;
  s.processes[0].where =
      "docker \xff\xc0\xaf\xed\xa0\x80\xf5 \x1b[2J\x7f \xc3\xa9\xf0\x9f\x98\x80 " + std::string(500, 'x');
  const std::string page = metrics_page(s, own());
  EXPECT_NE(page.find(R"(user="a\"} 1?headgate_gpu_power_watts{uuid=\"x")"), std::string::npos) << page;
  EXPECT_NE(page.find(R"(share="back\\slash")"), std::string::npos);
  std::string bad;  // a replacement mark for each byte that starts no character
  for (int i = 0; i < 7; ++i) bad += "\xef\xbf\xbd";
  EXPECT_NE(page.find("where=\"docker " + bad + " ?[2J? \xc3\xa9\xf0\x9f\x98\x80 xxx"), std::string::npos) << page;
  EXPECT_EQ(page.find(std::string(128, 'x')), std::string::npos) << "a name without end";
  static const std::regex line(
      R"(# (HELP|TYPE) headgate_[a-z_]+ .*|headgate_[a-z_]+(\{([a-z_]+="([^"\\]|\\["\\n])*",?)*\})? [-+0-9.e]+)");
  std::istringstream lines(page);
  for (std::string one; std::getline(lines, one);) EXPECT_TRUE(std::regex_match(one, line)) << one;
}

TEST(Metrics, EachSeriesAppearsOnce) {
  Snapshot s = lab();
  s.shares.push_back(s.shares[0]);
  Gpu lost;
  lost.index = 2;
  s.gpus.push_back(lost);
  std::set<std::string> seen;
  std::istringstream lines(metrics_page(s, own()));
  for (std::string line; std::getline(lines, line);)
    EXPECT_TRUE(seen.insert(line.substr(0, line.rfind(' '))).second) << line;
}

TEST(Metrics, AnUnknownValueIsNotShownAsZero) {
  Snapshot s = lab();
  s.gpus[0] = Gpu{};
  s.gpus[0].uuid = "GPU-9c2f";
  s.gpus[0].memory_total_bytes = 1;
  s.shares[0].devices[0].memory_limit_bytes.reset();
  for (auto& share : s.shares)
    for (auto& device : share.devices) device.metered = false;
  const std::string page = metrics_page(s, {});
  for (const char* name : {"gpu_busy_ratio",
                           "gpu_sm_active_ratio",
                           "gpu_encoder_busy_ratio",
                           "gpu_decoder_busy_ratio",
                           "gpu_power_watts",
                           "gpu_temperature_celsius",
                           "gpu_clock_hertz",
                           "gpu_energy_joules_total",
                           "gpu_ecc_corrected_errors_total",
                           "gpu_ecc_lifetime_corrected_errors_total",
                           "gpu_pcie_replays_total",
                           "gpu_pcie_received_bytes_per_second",
                           "gpu_pcie_sent_bytes_per_second",
                           "gpu_nvlink_errors_total",
                           "gpu_nvlink_received_bytes_total",
                           "gpu_nvlink_sent_bytes_total",
                           "share_memory_limit_bytes",
                           "share_gpu_seconds_total",
                           "share_gpu_seconds_estimated_total",
                           "daemon_clients",
                           "daemon_cpu_seconds"})
    EXPECT_EQ(page.find(std::string("headgate_") + name), std::string::npos) << name;
}

TEST(Metrics, AReleasedDriverLeavesNoStaleGpuFigures) {
  Snapshot s = lab();
  s.node.nvml_released = true;
  const std::string page = metrics_page(s, own());
  EXPECT_EQ(sample(page, "headgate_node_driver_released"), "1");
  for (const char* name : {"gpu_memory_used_bytes", "gpu_power_watts", "gpu_clock_hertz", "gpu_temperature_celsius"})
    EXPECT_EQ(page.find(std::string("headgate_") + name), std::string::npos) << name;
  EXPECT_EQ(sample(page, R"(headgate_gpu_memory_committed_bytes{uuid="GPU-9c2f"})"), "25769803776");
}

TEST(Metrics, LaunchDelaysAreCumulativeForAnyPageContent) {
  Snapshot s = lab();
  const auto bucket = [&](const std::string& le) {
    return sample(
        metrics_page(s, own()),
        R"(headgate_share_launch_delay_seconds_bucket{share="alice.train",uuid="GPU-9c2f",le=")" + le + "\"}");
  };
  const std::string of = R"({share="alice.train",uuid="GPU-9c2f"})";
  EXPECT_EQ(bucket("1e-05"), "10000000");
  EXPECT_EQ(bucket("0.02"), "10004086");
  EXPECT_EQ(bucket("+Inf"), "10004096");
  EXPECT_EQ(sample(metrics_page(s, own()), "headgate_share_launch_delay_seconds_count" + of), "10004096");
  EXPECT_EQ(sample(metrics_page(s, own()), "headgate_share_launch_delay_seconds_sum" + of), "77");
  s.shares[0].devices[0].launch_delays[1].launches = ~0ull;
  EXPECT_EQ(bucket("1e-05"), "10000000");
  EXPECT_EQ(bucket("0.0005"), "18446744073709551615");
  EXPECT_EQ(bucket("+Inf"), "18446744073709551615") << "less than a shorter one";
}

TEST(Metrics, TheSlicesOfADividedCardHaveTheirOwnUuids) {
  Snapshot s = lab();
  s.gpus[0].mig_instances = {{.uuid = "MIG-1",
                              .profile = "1g.6gb",
                              .gpu_instance = 7,
                              .compute_instance = 0,
                              .memory_total_bytes = 6ull << 30,
                              .memory_used_bytes = std::nullopt}};
  std::string page = metrics_page(s, own());
  EXPECT_EQ(sample(page, R"(headgate_gpu_mig_instance_info{uuid="GPU-9c2f",instance="MIG-1",profile="1g.6gb"})"), "1");
  EXPECT_EQ(sample(page, R"(headgate_gpu_mig_instance_memory_total_bytes{uuid="GPU-9c2f",instance="MIG-1"})"),
            "6442450944");
  EXPECT_EQ(page.find("mig_instance_memory_used_bytes{"), std::string::npos) << "that is not known";
  s.node.nvml_released = true;
  page = metrics_page(s, own());
  EXPECT_EQ(page.find("MIG-1"), std::string::npos);
}

TEST(Metrics, ExactlyOneEnforcementStateHoldsAndNoneTooGood) {
  Snapshot s = lab();
  const auto state_of = [&](const std::string& share) {
    const std::string page = metrics_page(s, own());
    std::string held;
    for (const char* state : {"enforced", "observed", "bypassed", "broken"}) {
      const std::string series = "headgate_share_enforcement{share=\"" + share + "\",state=\"" + state + "\"}";
      const std::string value = sample(page, series);
      EXPECT_TRUE(value == "0" || value == "1") << series;
      if (value == "1") held += state;
    }
    return held;
  };
  EXPECT_EQ(state_of("alice.train"), "bypassed");
  EXPECT_EQ(state_of("bob"), "observed");
  EXPECT_EQ(state_of("carol"), "broken");
  s.processes[0].finding.clear();
  EXPECT_EQ(state_of("alice.train"), "enforced");
}

TEST(Metrics, AShareIsJoinedOnlyWithACompletePodContainerOrJob) {
  Snapshot s = lab();
  const auto labels_at = [&](const std::string& where) {
    s.processes[0].where = where;
    std::smatch found;
    const std::string page = metrics_page(s, own());
    std::regex_search(page, found, std::regex("headgate_share_info\\{share=\"alice.train\".*(where=.*)\\} 1"));
    return found[1].str();
  };
  EXPECT_EQ(labels_at("pod ml/train-0"), R"(where="pod ml/train-0",namespace="ml",pod="train-0")");
  EXPECT_EQ(labels_at("pod 9c2f-uid"), R"(where="pod 9c2f-uid",pod="9c2f-uid")");
  EXPECT_EQ(labels_at("pod 9c2f-uid, crio"), R"(where="pod 9c2f-uid, crio",pod="9c2f-uid")");
  EXPECT_EQ(labels_at("pod 9c2f-uid, crio 4f2a"), R"(where="pod 9c2f-uid, crio 4f2a",pod="9c2f-uid",container="4f2a")");
  EXPECT_EQ(labels_at("docker 4f2a"), R"(where="docker 4f2a",container="4f2a")");
  EXPECT_EQ(labels_at("slurm 1234.0"), R"(where="slurm 1234.0",slurm_job="1234")");
  EXPECT_EQ(labels_at("unit x.service"), R"(where="unit x.service")");
  EXPECT_EQ(labels_at("host"), R"(where="host")");
  s.processes.push_back(s.processes[0]);
  s.processes[1].where = "pod ml/train-1";
  EXPECT_EQ(labels_at("pod ml/train-0"), R"(where="several")");
}

TEST(Metrics, OnlyCountersEndInTotal) {
  for (const Metric& metric : metrics()) {
    EXPECT_EQ(metric.kind == Kind::counter, metric.name.ends_with("_total")) << metric.name;
    EXPECT_TRUE(metric.name.starts_with("headgate_")) << metric.name;
  }
}

std::string kind_word(Kind kind) {
  return kind == Kind::histogram ? "histogram" : kind == Kind::counter ? "counter" : "gauge";
}

// docs/metrics.md has one line for each metric of the code and no other lines.
TEST(Metrics, TheDocumentedPageMatchesTheCode) {
  const std::string docs = text_of(METRICS_DOCS);
  std::set<std::string> known;
  for (const Metric& metric : metrics()) {
    std::string labels;
    std::istringstream parts{std::string(metric.labels)};
    for (std::string part; std::getline(parts >> std::ws, part, ',');)
      labels += (labels.empty() ? "`" : ", `") + part + "`";
    const std::string row = "| `" + std::string(metric.name) + "` | " + kind_word(metric.kind) + " | " + labels +
                            " | " + std::string(metric.help) + " |\n";
    EXPECT_NE(docs.find(row), std::string::npos) << "docs/metrics.md lacks:\n" << row;
    known.insert(std::string(metric.name));
  }
  static const std::regex first_cell(R"(\| `(headgate_[a-z_]+)` \| (counter|gauge|histogram) )");
  for (std::sregex_iterator at(docs.begin(), docs.end(), first_cell), end; at != end; ++at)
    EXPECT_TRUE(known.contains((*at)[1])) << "docs/metrics.md tells of " << (*at)[1] << ", which no page holds";
  const std::string dcgm = dcgm_page(lab());
  static const std::regex type_line(R"(# TYPE DCGM_FI_DEV(_[A-Z_]+) )");
  std::size_t of_dcgm = 0;
  for (std::sregex_iterator at(dcgm.begin(), dcgm.end(), type_line), end; at != end; ++at, ++of_dcgm)
    EXPECT_NE(docs.find(std::string((*at)[1]) + "`"), std::string::npos) << "docs/metrics.md lacks " << (*at)[1];
  EXPECT_GE(of_dcgm, 6u);
}

}  // namespace
}  // namespace headgate::api
