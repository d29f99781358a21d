// CPU energy from a tree of powercap files mounted where the kernel's would be, in the server's mount namespace.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli_program.hpp"
#include "daemon_program.hpp"
#include "http/client.hpp"
#include "sim_program.hpp"

namespace headgate::e2e {
namespace {

using nlohmann::json;

// Packages of one machine: "package-0" with memory, "package-1" without, and the platform, which is not a package.
class PowercapFiles {
 public:
  explicit PowercapFiles(std::string directory) : root_(std::move(directory)) {
    zone("intel-rapl:0", "package-0", 1'000);
    zone("intel-rapl:0/intel-rapl:0:0", "dram", 500);
    zone("intel-rapl:0/intel-rapl:0:1", "core", 77);
    zone("intel-rapl:1", "package-1", 2'000);
    zone("intel-rapl:2", "psys", 9'000);
  }
  void set(const std::string& zone, std::uint64_t energy_uj) const {
    const std::string file = root_ + "/class/powercap/intel-rapl/" + zone + "/energy_uj";
    std::ofstream(file + "~") << energy_uj << "\n";
    std::filesystem::rename(file + "~", file);
  }
  [[nodiscard]] const std::string& root() const { return root_; }

 private:
  void zone(const std::string& path, const std::string& name, std::uint64_t energy_uj) const {
    const std::string at = root_ + "/class/powercap/intel-rapl/" + path;
    std::filesystem::create_directories(at);
    std::ofstream(at + "/name") << name << "\n";
    std::ofstream(at + "/max_energy_range_uj") << 10'000 << "\n";
    set(path, energy_uj);
  }
  std::string root_;
};

// Runs `headgate zeusd serve` in a root of bind mounts with `tree` mounted at `place`: /zeus_sys or /sys.
class ServedThere {
 public:
  ServedThere(const std::string& place, const PowercapFiles& tree, const Cli& cli)
      : socket_(cli.directory() + "/z/zeusd.sock"),
        program_({"/usr/bin/unshare", "-m", "/bin/sh", "-ec", kScript, "sh", place, tree.root(),
                  cli.directory() + "/root", HEADGATE_COMMAND, socket_},
                 {{"HEADGATE_RUNTIME_DIR", cli.runtime()}}) {
    EXPECT_TRUE(eventually([&] { return get("/time") != nullptr; })) << program_.errors_so_far();
  }
  [[nodiscard]] json get(const std::string& target) const {
    const auto response = http::exchange({.path = socket_}, {.target = target}, std::chrono::seconds(20));
    return response && response->status == 200 ? json::parse(response->body, nullptr, false) : json(nullptr);
  }

 private:
  static constexpr const char* kScript =
      "place=$1; tree=$2; root=$3; command=$4; socket=$5\n"
      "mkdir $root; mount -t tmpfs none $root\n"
      "for entry in /*; do\n"
      "  if [ -L $entry ]; then cp -P $entry $root/\n"
      "  elif [ -d $entry ] && [ $entry != $place ]; then mkdir $root$entry; mount --rbind $entry $root$entry; fi\n"
      "done\n"
      "mkdir $root$place; mount --bind $tree $root$place\n"
      "exec chroot $root $command zeusd serve --sim=l40s-x2 --socket-path $socket\n";
  std::string socket_;
  Program program_;
};

class ZeusdRapl : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(At, ZeusdRapl, testing::Values("/zeus_sys", "/sys"),
                         [](const auto& place) { return std::string(place.param).substr(1); });

TEST_P(ZeusdRapl, PackagesAndMemoryAreReadAcrossAWraparound) {
  if (!may_mount()) GTEST_SKIP() << "needs mount namespaces";
  const Cli cli;
  const PowercapFiles tree(cli.directory() + "/tree");
  const ServedThere served(GetParam(), tree, cli);
  EXPECT_EQ(served.get("/discover")["cpus"],
            json::parse(R"([{"id":0,"dram_available":true},{"id":1,"dram_available":false}])"));
  const auto energy = [&](const char* cpus) {
    return served.get("/cpu/get_cumulative_energy?cpu=true&dram=true&cpu_ids=" + std::string(cpus));
  };
  EXPECT_EQ(energy("0,1"), json::parse(R"({"0":{"cpu_energy_uj":1000,"dram_energy_uj":500},
                                            "1":{"cpu_energy_uj":2000,"dram_energy_uj":null}})"));
  tree.set("intel-rapl:0", 9'000);
  EXPECT_EQ(energy("0")["0"]["cpu_energy_uj"], 9'000);
  tree.set("intel-rapl:0", 200);
  tree.set("intel-rapl:0/intel-rapl:0:0", 400);
  EXPECT_EQ(energy("0"), json::parse(R"({"0":{"cpu_energy_uj":10200,"dram_energy_uj":10400}})"));
}

}  // namespace
}  // namespace headgate::e2e
