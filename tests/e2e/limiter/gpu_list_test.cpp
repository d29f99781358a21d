// The GPUs that a program in a share sees, and their numbers: NVML and CUDA both show those of the share.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "cli_program.hpp"
#include "daemon_program.hpp"

namespace headgate::e2e {
namespace {

struct Card {
  std::string number, uuid, minor, pci, serial, mib;
};

struct Seen {
  std::vector<Card> nvml;
  std::vector<Card> cuda;  // number, uuid, mib
  std::string beyond, topology, looks;
};

Seen read(const Said& said) {
  Seen seen;
  std::istringstream lines(said.out);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind, skipped;
    Card card;
    words >> kind;
    if (kind == "nvml") {
      words >> card.number >> card.uuid >> skipped >> card.minor >> card.pci >> card.serial >> card.mib;
      seen.nvml.push_back(card);
    } else if (kind == "cuda") {
      words >> card.number >> card.uuid >> card.mib;
      seen.cuda.push_back(card);
    } else if (kind == "beyond") {
      words >> seen.beyond;
    } else {
      (kind == "near" ? seen.topology : seen.looks) += line + "\n";
    }
  }
  EXPECT_EQ(said.status, 0) << said.out << said.err;
  return seen;
}

std::vector<std::string> uuids(const std::vector<Card>& cards) {
  std::vector<std::string> all;
  for (const Card& card : cards) all.push_back(card.uuid);
  return all;
}

class GpuList : public testing::Test {
 protected:
  void SetUp() override {
    const Seen node =
        read(shell("$H run --sim=l40s-x2 -- true; LD_LIBRARY_PATH=$SIM HEADGATE_SIM_DIR=$($H sim path --sim=l40s-x2) "
                   "$P"));
    ASSERT_EQ(node.nvml.size(), 2U);
    cards_ = node.nvml;
  }
  [[nodiscard]] Said shell(const std::string& line) const {
    return cli_.shell("P=" GPU_LIST_PROBE "; S=" NVIDIA_SMI "; " + line);
  }
  [[nodiscard]] std::string names_of(const Card& card) const { return card.uuid + " " + card.pci + " " + card.serial; }
  Cli cli_;
  std::vector<Card> cards_;
};

TEST_F(GpuList, AShareOfTheSecondCardHasItAsNumberZeroOnly) {
  for (const char* first : {"", " -"}) {
    const Seen seen = read(shell("$H run --sim=l40s-x2 --gpu 1 --mem 8GiB -- $P" + std::string(first) + " " +
                                 names_of(cards_[0]) + " " + names_of(cards_[1])));
    ASSERT_EQ(uuids(seen.nvml), std::vector{cards_[1].uuid});
    EXPECT_EQ(seen.nvml[0].number, "0");
    EXPECT_EQ(seen.nvml[0].mib, "8192");
    EXPECT_EQ(seen.nvml[0].minor, "1") << "the device file's, which no share renames";
    EXPECT_EQ(uuids(seen.cuda), std::vector{cards_[1].uuid});
    EXPECT_EQ(seen.beyond, "2") << "no GPU has that number: INVALID_ARGUMENT";
    EXPECT_EQ(seen.topology, "near 0, node 1\n");
    // Every name of the neighbour's GPU returns NOT_FOUND (6); each name of ours works with one call only. What is no
    // PCI address returns INVALID_ARGUMENT (2).
    EXPECT_EQ(seen.looks, cards_[0].uuid + " 6 2 6\n" + cards_[0].pci + " 6 6 6\n" + cards_[0].serial + " 6 2 6\n" +
                              cards_[1].uuid + " 0 2 6\n" + cards_[1].pci + " 6 0 6\n" + cards_[1].serial + " 6 2 0\n");
  }
}

TEST_F(GpuList, NvmlCountsTheCardsAsCudaDoes) {
  const Seen turned = read(shell("$H run --sim=l40s-x2 --gpu 1,0 --mem 8GiB -- $P"));
  EXPECT_EQ(uuids(turned.nvml), (std::vector{cards_[1].uuid, cards_[0].uuid}));
  EXPECT_EQ(uuids(turned.cuda), uuids(turned.nvml));
  EXPECT_EQ(turned.topology, "near 1, node 2\n");
}

// As in a container: NVML ignores the variable, and the variable's numbers refer to NVML's numbering.
TEST_F(GpuList, AProgramsChoiceLimitsWhatNvmlShows) {
  const Seen chosen = read(shell("$H run --sim=l40s-x2 --gpu 1,0 --mem 8GiB -- sh -c 'CUDA_VISIBLE_DEVICES=1 '$P"));
  EXPECT_EQ(uuids(chosen.nvml), (std::vector{cards_[1].uuid, cards_[0].uuid}));
  EXPECT_EQ(uuids(chosen.cuda), std::vector{cards_[0].uuid});
  const Seen named =
      read(shell("$H run --sim=l40s-x2 --gpu 1,0 --mem 8GiB -- env CUDA_VISIBLE_DEVICES=" + cards_[1].uuid + " $P"));
  EXPECT_EQ(uuids(named.cuda), std::vector{cards_[1].uuid});
}

// Whatever a launcher puts into the variable: a GPU outside the share does not exist, and hides those after it.
TEST_F(GpuList, AGpuOutsideTheShareIsNotListed) {
  const auto shown = [&](const std::string& visible) {
    const Seen seen =
        read(shell("$H run --sim=l40s-x2 --gpu 1 --mem 8GiB -- env CUDA_VISIBLE_DEVICES=" + visible + " $P"));
    EXPECT_EQ(uuids(seen.nvml), std::vector{cards_[1].uuid}) << visible;
    return uuids(seen.cuda);
  };
  const std::string other = cards_[0].uuid, own = cards_[1].uuid;
  EXPECT_TRUE(shown(other).empty());
  EXPECT_TRUE(shown(other + "," + own).empty());
  EXPECT_TRUE(shown(other.substr(0, 10)).empty());
  EXPECT_EQ(shown(own + "," + other), std::vector{own});
  EXPECT_EQ(shown("0," + other), std::vector{own});
}

// Limits from the environment alone select no GPUs. CUDA numbers the driver's GPUs, so NVML does too.
TEST_F(GpuList, NvmlCountsTheDriversCardsIfCudaDoes) {
  const Seen seen = read(
      shell("LD_PRELOAD=${SIM%/sim}/libheadgate.so LD_LIBRARY_PATH=$SIM HEADGATE_SIM_DIR=$($H sim path --sim=l40s-x2) "
            "HEADGATE_MEM=4GiB CUDA_VISIBLE_DEVICES=1 $P"));
  EXPECT_EQ(uuids(seen.nvml), uuids(cards_));
  EXPECT_EQ(uuids(seen.cuda), std::vector{cards_[1].uuid});
}

TEST_F(GpuList, NvidiaSmiListsTheSharesCardsByCudasNumbers) {
  if (::access(NVIDIA_SMI, X_OK) != 0) GTEST_SKIP() << "dev/real-parts has not been run";
  const auto in_share = [&](const std::string& words) {
    const Said said = shell("$H run --sim=l40s-x2 --gpu 1 --mem 8GiB -- $S " + words);
    EXPECT_EQ(said.status, 0) << words << said.out << said.err;
    EXPECT_FALSE(said.out.contains(cards_[0].uuid) || said.out.contains(cards_[0].pci)) << words << said.out;
    return said.out;
  };
  EXPECT_EQ(in_share("-L"), "GPU 0: NVIDIA L40S (UUID: " + cards_[1].uuid + ")\n");
  const std::string row = "0, " + cards_[1].uuid + ", " + cards_[1].pci + ", 8192 MiB, 1\n";
  const std::string query = "--query-gpu=index,uuid,pci.bus_id,memory.total,count --format=csv,noheader";
  EXPECT_EQ(in_share(query), row);
  EXPECT_EQ(in_share(query + " -i 0"), row);
  EXPECT_EQ(in_share(query + " -i " + cards_[1].uuid), row);
  EXPECT_TRUE(in_share("").contains("|   0  NVIDIA L40S                    On  | " + cards_[1].pci));
  const std::string whole = in_share("-q");
  EXPECT_TRUE(whole.contains("Attached GPUs                             : 1\n")) << whole;
  EXPECT_TRUE(whole.contains("Minor Number                          : 1\n")) << whole;
  EXPECT_FALSE(in_share("topo -m").contains("GPU1"));
  EXPECT_TRUE(in_share("pmon -c 1").contains("    0 "));
  const Said other = shell("$H run --sim=l40s-x2 --gpu 1 --mem 8GiB -- $S -i " + cards_[0].uuid + " -q");
  EXPECT_TRUE(other.out.contains("No devices were found")) << other.out;
  for (const char* view : {"-q -d MEMORY,UTILIZATION,PIDS", "--query-compute-apps=pid,gpu_uuid --format=csv",
                           "pmon -c 1", "dmon -c 1", "topo -p2p r"})
    EXPECT_FALSE(in_share(view).contains("GPU1")) << view;
  // Number 1 of the node is number 0 here, and there is no other.
  for (const char* view : {"-i 1", "-i 1 -q -d MEMORY", "--query-gpu=uuid --format=csv -i 1", "pmon -c 1 -i 1"}) {
    const Said none = shell(std::string("$H run --sim=l40s-x2 --gpu 1 --mem 8GiB -- $S ") + view);
    EXPECT_TRUE(none.out.contains("No devices were found")) << view << none.out;
  }
  const Said turned = shell("$H run --sim=l40s-x2 --gpu 1,0 --mem 8GiB -- $S -L");
  EXPECT_EQ(turned.out,
            "GPU 0: NVIDIA L40S (UUID: " + cards_[1].uuid + ")\nGPU 1: NVIDIA L40S (UUID: " + cards_[0].uuid + ")\n");
}

// By the addresses that nvidia-smi takes: with or without the domain, any case.
TEST_F(GpuList, NvidiaSmiFindsTheSharesCardsByPciAddress) {
  if (::access(NVIDIA_SMI, X_OK) != 0) GTEST_SKIP() << "dev/real-parts has not been run";
  const auto query = [&](const std::string& gpus, const std::string& address) {
    return shell("$H run --sim=l40s-x2 --gpu " + gpus + " -- $S --query-gpu=uuid --format=csv,noheader -i '" + address +
                 "'");
  };
  const auto forms = [](const Card& card) {
    std::string lower = card.pci;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    return std::vector{card.pci, lower, lower.substr(4), lower.substr(9), card.pci.substr(9)};
  };
  for (const std::string& address : forms(cards_[1]))
    for (const char* gpus : {"all", "1", "1,0"}) {
      const Said said = query(gpus, address);
      EXPECT_EQ(said.out, cards_[1].uuid + "\n") << gpus << " " << address << said.err;
      EXPECT_EQ(said.status, 0);
    }
  for (const std::string& address : forms(cards_[0]))
    EXPECT_TRUE(query("1", address).out.contains("No devices were found")) << address;
  EXPECT_EQ(query("all", cards_[1].pci + "," + cards_[0].pci.substr(9)).out,
            cards_[0].uuid + "\n" + cards_[1].uuid + "\n");
  EXPECT_TRUE(query("all", "ff:00.0").out.contains("No devices were found"));
  for (const char* address : {"1f:00", "1f:00.0 ", "x:1f:00.0"}) {
    const Said said = query("1", address);
    EXPECT_NE(said.status, 0) << address;
    EXPECT_TRUE(said.out.contains("Problem with GPU " + cards_[1].pci.substr(4) + ": Invalid PCI bus id"))
        << address << said.out << said.err;
  }
  for (const char* view : {"-q -d MEMORY -i ", "pmon -c 1 -i ", "dmon -c 1 -i ", "compute-policy --list -i "}) {
    const Said ours = shell("$H run --sim=l40s-x2 --gpu 1 --mem 8GiB -- $S " + (view + cards_[1].pci));
    EXPECT_EQ(ours.status, 0) << view << ours.out << ours.err;
    const Said other = shell("$H run --sim=l40s-x2 --gpu 1 --mem 8GiB -- $S " + (view + cards_[0].pci));
    EXPECT_FALSE(other.out.contains(cards_[0].uuid) || other.out.contains(cards_[0].pci)) << view << other.out;
  }
}

// A daemon's share. The program gets only its directory, as if mounted in a container.
TEST(GpuListOfADaemonsShare, ComesFromItsDirectoryAlone) {
  const Daemon daemon({}, "model = \"NVIDIA L40S\"\ncount = 2\n");
  const std::string plain = "LD_LIBRARY_PATH=" SIMULATOR_DIR " HEADGATE_SIM_DIR=" + daemon.cli().directory() +
                            "/node LD_PRELOAD=" HEADGATE_LIMITER " ";
  const auto cards = read(daemon.cli().shell(plain + GPU_LIST_PROBE)).nvml;
  ASSERT_EQ(cards.size(), 2U);
  ASSERT_EQ(daemon.cli().shell("$H share create one --gpu 1 --mem 8GiB").status, 0);
  ASSERT_EQ(daemon.cli().shell("$H share create two --gpu 1,0 --mem 4GiB").status, 0);
  const auto in = [&](const std::string& share, const std::string& words) {
    return read(
        daemon.cli().shell(plain + "HEADGATE_SHARE_DIR=" + daemon.cli().runtime() + "/shares/" + share + " " + words));
  };
  for (const std::string words : {GPU_LIST_PROBE, GPU_LIST_PROBE " -", "CUDA_VISIBLE_DEVICES=0 " GPU_LIST_PROBE,
                                  "CUDA_VISIBLE_DEVICES=0 " GPU_LIST_PROBE " -"}) {
    const Seen one = in("one", words);
    EXPECT_EQ(uuids(one.nvml), std::vector{cards[1].uuid}) << words;
    EXPECT_EQ(uuids(one.cuda), std::vector{cards[1].uuid}) << words;
    ASSERT_FALSE(one.nvml.empty() || one.cuda.empty());
    EXPECT_EQ(one.nvml[0].mib + " " + one.cuda[0].mib, "8192 8192") << words;
  }
  const Seen two = in("two", GPU_LIST_PROBE);
  EXPECT_EQ(uuids(two.nvml), (std::vector{cards[1].uuid, cards[0].uuid}));
  EXPECT_EQ(uuids(two.cuda), uuids(two.nvml));
  EXPECT_EQ(uuids(in("two", "CUDA_VISIBLE_DEVICES=1 " GPU_LIST_PROBE).cuda), std::vector{cards[0].uuid});
  std::string loud = cards[0].uuid;
  std::ranges::transform(loud, loud.begin() + 0, [](char c) { return static_cast<char>(std::toupper(c)); });
  EXPECT_EQ(uuids(in("two", "CUDA_VISIBLE_DEVICES=" + loud + " " GPU_LIST_PROBE).cuda), std::vector{cards[0].uuid});
  EXPECT_TRUE(in("two", "CUDA_VISIBLE_DEVICES=-1 " GPU_LIST_PROBE).cuda.empty());
  // A child inherits the variable that its parent set, and it means the same there.
  const Seen child = in("two", "CUDA_VISIBLE_DEVICES=1,0 sh -c " GPU_LIST_PROBE);
  EXPECT_EQ(uuids(child.cuda), (std::vector{cards[0].uuid, cards[1].uuid}));
}

}  // namespace
}  // namespace headgate::e2e
