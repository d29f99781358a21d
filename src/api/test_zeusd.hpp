// For tests: the zeusd API over recording GPUs and a powercap tree, on a Unix socket and on TCP.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/zeusd.hpp"
#include "http/test_server.hpp"
#include "power/test_recording_manager.hpp"

namespace headgate::api {

// As in zeusd's tests: each package counts 10000 uJ and its memory 5000 uJ, until a test sets other values.
class CpuFiles {
 public:
  explicit CpuFiles(std::uint32_t packages) {
    std::string pattern = "/tmp/headgate-cpu-XXXXXX";
    root_ = ::mkdtemp(pattern.data());
    for (std::uint32_t number = 0; number < packages; ++number) {
      const std::string zone = "intel-rapl:" + std::to_string(number);
      make(zone, "package-" + std::to_string(number), 10'000);
      make(zone + "/" + zone + ":0", "dram", 5'000);
    }
  }
  ~CpuFiles() { std::filesystem::remove_all(root_); }
  CpuFiles(const CpuFiles&) = delete;

  [[nodiscard]] const std::string& root() const { return root_; }
  void set(std::uint32_t package, std::uint64_t package_uj, std::uint64_t dram_uj) const {
    const std::string zone = "intel-rapl:" + std::to_string(package);
    write(zone + "/energy_uj", std::to_string(package_uj));
    write(zone + "/" + zone + ":0/energy_uj", std::to_string(dram_uj));
  }
  // Replaces the file atomically, so that readers never see half of it, as with the kernel's files.
  void write(const std::string& path, const std::string& text) const {
    std::ofstream(root_ + "/next") << text << "\n";
    std::filesystem::rename(root_ + "/next", root_ + "/class/powercap/intel-rapl/" + path);
  }

 private:
  void make(const std::string& zone, const std::string& name, std::uint64_t energy_uj) const {
    std::filesystem::create_directories(root_ + "/class/powercap/intel-rapl/" + zone);
    write(zone + "/name", name);
    write(zone + "/energy_uj", std::to_string(energy_uj));
    write(zone + "/max_energy_range_uj", "262143328850");
  }
  std::string root_;
};

class ZeusdBench {
 public:
  explicit ZeusdBench(ZeusdOptions options = all_groups(), std::size_t depth = power::ControlQueues::kDepth)
      : cpus(2), rapl(cpus.root()) {
    for (std::uint32_t gpu = 0; gpu < 4; ++gpu) gpus.emplace_back(gpu);
    queues.emplace(power::recording_managers(gpus), [](const power::Executed&) {}, depth);
    server = std::make_unique<http::TestServer>([&](http::Loop& loop) {
      Zeusd zeusd(loop, *queues, rapl, std::move(options));
      return zeusd.routes();  // the routes keep what they need alive
    });
  }
  // The client may have its answer while a worker still hands it to the server's loop, so workers end before that does.
  ~ZeusdBench() {
    for (power::Recording& gpu : gpus) gpu.open();
    EXPECT_TRUE(queues->stops_within(std::chrono::seconds(20)));
  }

  [[nodiscard]] static ZeusdOptions all_groups() {
    ZeusdOptions options;
    options.groups = {power::ApiGroup::gpu_control, power::ApiGroup::gpu_read, power::ApiGroup::cpu_read};
    options.gpu_period = std::chrono::milliseconds(2);
    options.cpu_period = std::chrono::milliseconds(5);
    return options;
  }

  [[nodiscard]] http::IncomingResponse ask(const std::string& method, const std::string& target,
                                           const http::Fields& headers = {}) const {
    const auto endpoint = over_tcp ? server->tcp_endpoint() : server->unix_endpoint();
    auto response =
        http::exchange(endpoint, {.method = method, .target = target, .headers = headers}, std::chrono::seconds(20));
    if (response) return std::move(*response);
    return {.status = -1, .headers = {}, .body = response.error().message};
  }
  [[nodiscard]] http::IncomingResponse get(const std::string& target, const http::Fields& headers = {}) const {
    return ask("GET", target, headers);
  }
  [[nodiscard]] http::IncomingResponse post(const std::string& target, const http::Fields& headers = {}) const {
    return ask("POST", target, headers);
  }
  [[nodiscard]] static nlohmann::json json(const http::IncomingResponse& response) {
    return nlohmann::json::parse(response.body, nullptr, false);
  }
  // Returns the next events of a stream, as JSON.
  [[nodiscard]] std::vector<nlohmann::json> events(const std::string& target, std::size_t count) const {
    std::vector<nlohmann::json> all;
    const auto endpoint = over_tcp ? server->tcp_endpoint() : server->unix_endpoint();
    auto source = http::EventSource::open(endpoint, {.target = target}, std::chrono::seconds(20));
    while (source && all.size() < count) {
      const auto event = source->next(std::chrono::seconds(20));
      if (!event || !*event) break;
      all.push_back(nlohmann::json::parse((*event)->data, nullptr, false));
    }
    return all;
  }

  // Reads the first event of a stream from the raw bytes: one chunk "data: JSON" and an empty line, as zeusd sends it.
  // Null if other bytes came.
  [[nodiscard]] nlohmann::json first_event(const std::string& target) const {
    http::RawClient client(over_tcp ? server->tcp_endpoint() : server->unix_endpoint());
    client.send("GET " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const std::string got = client.read([](const std::string& text) { return text.contains("\n\n"); });
    const std::size_t head = got.find("\r\n\r\n"), size = got.find("\r\n", head + 4), end = got.find("\n\n");
    if (!got.starts_with("HTTP/1.1 200 ") || !got.contains("Content-Type: text/event-stream\r\n")) return nullptr;
    constexpr std::string_view kData = "data: ";
    if (size == std::string::npos || end == std::string::npos || got.compare(size + 2, kData.size(), kData) != 0)
      return nullptr;
    const std::size_t begin = size + 2 + kData.size();
    return nlohmann::json::parse(got.substr(begin, end - begin), nullptr, false);
  }

  bool over_tcp = false;
  std::deque<power::Recording> gpus;
  CpuFiles cpus;
  power::Rapl rapl;
  std::optional<power::ControlQueues> queues;
  std::unique_ptr<http::TestServer> server;  // last member: its routes use the others
};

}  // namespace headgate::api
