#include "power/rapl.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/inotify.h>

#include <filesystem>
#include <fstream>

namespace headgate::power {
namespace {

namespace fs = std::filesystem;

// A tree of powercap files.
class PowercapTree {
 public:
  PowercapTree() {
    std::string pattern = "/tmp/headgate-rapl-XXXXXX";
    root_ = ::mkdtemp(pattern.data());
    fs::create_directories(base());
  }
  ~PowercapTree() { fs::remove_all(root_); }
  [[nodiscard]] std::string base() const { return root_ + "/class/powercap/intel-rapl"; }
  [[nodiscard]] const std::string& root() const { return root_; }
  void zone(const std::string& path, const std::string& name, std::uint64_t energy_uj, std::uint64_t range_uj = 1000) {
    fs::create_directories(base() + "/" + path);
    write(path + "/name", name + "\n");
    write(path + "/max_energy_range_uj", std::to_string(range_uj) + "\n");
    set(path, energy_uj);
  }
  void set(const std::string& path, std::uint64_t energy_uj) {
    write(path + "/energy_uj", std::to_string(energy_uj) + "\n");
  }
  void write(const std::string& path, const std::string& text) const { std::ofstream(base() + "/" + path) << text; }

 private:
  std::string root_;
};

TEST(WrappingCounter, SumsOverWraps) {
  WrappingCounter counter(1000);
  EXPECT_EQ(counter.add(900), 900u);
  EXPECT_EQ(counter.add(950), 950u);
  EXPECT_EQ(counter.add(50), 1050u) << "one wrap";
  EXPECT_EQ(counter.add(50), 1050u);
  EXPECT_EQ(counter.add(999), 1999u);
  EXPECT_EQ(counter.add(0), 2000u) << "another";
}

TEST(WrappingCounter, AResetOfTheCounterAddsNoRange) {
  WrappingCounter without_range(0);
  EXPECT_EQ(without_range.add(500), 500u);
  EXPECT_EQ(without_range.add(10), 510u);
  WrappingCounter wrong_range(100);
  EXPECT_EQ(wrong_range.add(500), 500u);
  EXPECT_EQ(wrong_range.add(10), 510u);
}

TEST(Rapl, FindsPackagesAndTheirMemoryAndLeavesPsysOut) {
  PowercapTree tree;
  tree.zone("intel-rapl:0", "package-0", 100);
  tree.zone("intel-rapl:0/intel-rapl:0:0", "core", 1);
  tree.zone("intel-rapl:0/intel-rapl:0:1", "dram", 30);
  tree.zone("intel-rapl:1", "psys", 9000);
  tree.zone("intel-rapl:2", "package-1", 200);
  Rapl rapl(tree.root());
  ASSERT_EQ(rapl.packages().size(), 2u);
  EXPECT_EQ(rapl.packages()[0].number, 0u);
  EXPECT_TRUE(rapl.packages()[0].has_dram);
  EXPECT_EQ(rapl.packages()[1].number, 2u);
  EXPECT_FALSE(rapl.packages()[1].has_dram);
  const auto first = rapl.energy(0);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->package_uj, 100u);
  EXPECT_EQ(first->dram_uj, 30u);
  const auto second = rapl.energy(2);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->package_uj, 200u);
  EXPECT_FALSE(second->dram_uj);
  EXPECT_EQ(rapl.energy(1).error().code, ErrorCode::not_found);
}

TEST(Rapl, EnergyContinuesAcrossAWrap) {
  PowercapTree tree;
  tree.zone("intel-rapl:0", "package-0", 950);
  tree.zone("intel-rapl:0/intel-rapl:0:0", "dram", 900, 950);
  Rapl rapl(tree.root());
  EXPECT_EQ(rapl.energy(0)->package_uj, 950u);
  tree.set("intel-rapl:0", 20);
  tree.set("intel-rapl:0/intel-rapl:0:0", 10);
  const auto after = rapl.energy(0);
  EXPECT_EQ(after->package_uj, 1020u);
  EXPECT_EQ(after->dram_uj, 960u);
}

// Two wraps between readings would look like one.
TEST(Rapl, AnIdleCounterIsReadOccasionally) {
  PowercapTree tree;
  tree.zone("intel-rapl:0", "package-0", 10);
  const Rapl rapl(tree.root(), std::chrono::milliseconds(1));
  const int watch = ::inotify_init1(IN_CLOEXEC);
  ASSERT_GE(::inotify_add_watch(watch, (tree.base() + "/intel-rapl:0/energy_uj").c_str(), IN_CLOSE_NOWRITE), 0);
  pollfd wanted{.fd = watch, .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&wanted, 1, 60'000), 1) << "it is read without a caller";
  ::close(watch);
}

TEST(Rapl, AMachineWithoutRaplHasNoPackages) {
  PowercapTree tree;
  fs::remove_all(tree.base());
  Rapl rapl(tree.root());
  EXPECT_TRUE(rapl.packages().empty());
  EXPECT_NE(rapl.trouble().find("no CPU energy"), std::string::npos);
}

TEST(Rapl, AnUnreadableDramIsNullAndAnUnreadablePackageAnError) {
  PowercapTree tree;
  tree.zone("intel-rapl:0", "package-0", 100);
  tree.zone("intel-rapl:0/intel-rapl:0:0", "dram", 30);
  Rapl rapl(tree.root());
  tree.write("intel-rapl:0/intel-rapl:0:0/energy_uj", "");
  EXPECT_FALSE(rapl.energy(0)->dram_uj);
  tree.write("intel-rapl:0/energy_uj", "12x\n");
  const auto broken = rapl.energy(0);
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().message.find("energy_uj: '12x' is not a whole number"), std::string::npos)
      << broken.error().message;
}

TEST(Rapl, ACounterIsDigitsOnly) {
  EXPECT_EQ(parse_counter("18446744073709551615\n"), 18446744073709551615u);
  EXPECT_EQ(parse_counter("0"), 0u);
  for (const char* text : {"", "\n", "-1", "1 ", " 1", "1\n\n", "0x10", "18446744073709551616", "1.5"})
    EXPECT_FALSE(parse_counter(text)) << text;
}

TEST(Rapl, OnlyTopZonesArePackages) {
  EXPECT_EQ(package_number("intel-rapl:12"), 12u);
  for (const char* name : {"intel-rapl", "intel-rapl:", "intel-rapl:0:0", "intel-rapl-mmio:0", "name", "xintel-rapl:0"})
    EXPECT_FALSE(package_number(name)) << name;
}

TEST(Rapl, PowerIsEnergyOverTheTimeThatPassed) {
  const PowerDraw draw = mean_power({.package_uj = 1'000'000, .dram_uj = 0},
                                    {.package_uj = 6'000'000, .dram_uj = 500'000}, std::chrono::milliseconds(100));
  EXPECT_EQ(draw.mw, 50'000u);
  EXPECT_EQ(draw.dram_mw, 5'000u);
  EXPECT_FALSE(
      mean_power({.package_uj = 1, .dram_uj = {}}, {.package_uj = 2, .dram_uj = 1}, std::chrono::seconds(1)).dram_mw);
}

}  // namespace
}  // namespace headgate::power
