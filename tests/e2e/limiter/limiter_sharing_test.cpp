// Memory shared by processes under the limiter: which share is charged, and until when.
#include "limiter_sharing.hpp"

namespace headgate::e2e {
namespace {

TEST_F(Sharing, OnlyTheMakerIsChargedUntilTheLastHolderEnds) {
  Puppet &maker = puppet(), &other = puppet(), &stranger = puppet("16GiB", "strangers");
  ASSERT_EQ(maker.tell("create 1 4"), 0u);
  EXPECT_EQ(account().used, 4 * kChunk);
  ASSERT_EQ(maker.tell("export 1"), 0u);
  const int fd = maker.receive();
  for (Puppet* importer : {&other, &stranger}) {
    importer->send(fd);
    ASSERT_EQ(importer->tell("import 1 4"), 0u);
    ASSERT_EQ(importer->tell("map 1"), 0u);
    ASSERT_EQ(importer->tell("release 1"), 0u);
    ASSERT_EQ(importer->tell("info"), 0u);
  }
  EXPECT_EQ(account().used, 4 * kChunk) << "no share pays twice";
  EXPECT_EQ(account("strangers").used, 0u);
  ASSERT_EQ(maker.tell("release 1"), 0u);
  EXPECT_EQ(account().used, 4 * kChunk) << "two have it mapped, one descriptor is open";
  EXPECT_EQ(account().draining, 4 * kChunk);
  ::close(fd);
  ASSERT_EQ(other.tell("unmap 1"), 0u);
  ASSERT_EQ(maker.tell("info"), 0u);
  EXPECT_EQ(account().used, 4 * kChunk) << "the stranger still has it";
  ASSERT_EQ(stranger.tell("unmap 1"), 0u);
  EXPECT_EQ(truth(), 0u);
  ASSERT_EQ(maker.tell("info"), 0u);
  EXPECT_EQ(account().used, 0u);
}

TEST_F(Sharing, ADeadMakersMemoryStaysChargedUntilItsImporterEnds) {
  for (const bool killed : {true, false}) {
    Puppet &maker = puppet(), &importer = puppet();
    ASSERT_EQ(maker.tell("create 1 4"), 0u);
    ASSERT_EQ(maker.tell("create 2 2"), 0u);  // never exported
    ASSERT_EQ(maker.tell("export 1"), 0u);
    const int fd = maker.receive();
    importer.send(fd);
    ::close(fd);
    ASSERT_EQ(importer.tell("import 1 4"), 0u);
    if (killed) maker.die();
    else maker.leave();
    EXPECT_EQ(account().used, 4 * kChunk) << "the part that was not exported is gone";
    EXPECT_EQ(account().draining, 4 * kChunk);
    EXPECT_EQ(truth(), 4 * kChunk);
    ASSERT_EQ(importer.tell("info"), 0u);
    EXPECT_EQ(account().used, 4 * kChunk);
    ASSERT_EQ(importer.tell("release 1"), 0u);
    EXPECT_EQ(truth(), 0u);
    ASSERT_EQ(importer.tell("info"), 0u);
    EXPECT_EQ(account().used, 0u);
    importer.leave();
  }
}

// The limit includes memory that no process maps and only descriptors keep alive. Other limiters can be bypassed so.
TEST_F(Sharing, MemoryCannotBeHiddenBehindADescriptor) {
  const std::uint64_t context = sim::find_profile("h200")->context_bytes;
  Puppet& hider = puppet(std::to_string(context / 1024 + 20 * 1024) + "KiB");
  unsigned granted = 0;
  for (int i = 0; i < 20; ++i) {
    const std::string name = std::to_string(i);
    if (hider.tell("create " + name + " 2") != 0) break;
    ++granted;
    ASSERT_EQ(hider.tell("hold " + name), 0u);
    ASSERT_EQ(hider.tell("release " + name), 0u);
  }
  EXPECT_EQ(granted, 5u);
  EXPECT_EQ(truth(), 10 * kChunk);
  EXPECT_EQ(account().used, 10 * kChunk);
}

TEST_F(Sharing, AForkedChildsDescriptorKeepsTheBytesCharged) {
  Puppet &maker = puppet(), &witness = puppet();
  ASSERT_EQ(maker.tell("create 1 3"), 0u);
  ASSERT_EQ(maker.tell("hold 1"), 0u);
  ASSERT_EQ(maker.tell("fork"), 0u);
  // The child holds the puppet's output open too, so do not wait for its end here.
  ::kill(maker.process.pid(), SIGKILL);
  for (int tries = 0; account().draining == 0 && tries < 5000; ++tries) ::usleep(1000);
  ASSERT_EQ(witness.tell("info"), 0u);
  EXPECT_EQ(truth(), 3 * kChunk);
  EXPECT_EQ(account().used, 3 * kChunk);
  test::tell(maker.way.ends[0], 'e');
  maker.die();
  for (int tries = 0; truth() != 0 && tries < 5000; ++tries) ::usleep(1000);
  ASSERT_EQ(witness.tell("info"), 0u);
  EXPECT_EQ(account().used, 0u);
}

TEST_F(Sharing, ARefusalFirstChecksMemoryOfDeadProcesses) {
  const std::uint64_t context = sim::find_profile("h200")->context_bytes;
  const std::string memory = std::to_string(2 * context / 1024 + 20 * 1024) + "KiB";
  Puppet &maker = puppet(memory), &heir = puppet(memory);
  ASSERT_EQ(maker.tell("create 1 5"), 0u);
  ASSERT_EQ(heir.tell("create 1 5"), 0u);
  EXPECT_EQ(heir.tell("create 2 1"), 2u);
  ASSERT_EQ(maker.tell("export 1"), 0u);
  const int fd = maker.receive();
  maker.die();
  ::close(fd);
  // The memory of the dead maker's context and its exports: it is never given out twice.
  const std::uint64_t freed = context / kChunk + 5;
  unsigned answer = 2;
  for (int tries = 0; answer == 2 && tries < 1000; ++tries) {
    answer = heir.tell("create 2 " + std::to_string(freed));
    if (answer == 2) ::usleep(10'000);
  }
  EXPECT_EQ(answer, 0u);
  EXPECT_EQ(account().used, (5 + freed) * kChunk);
  EXPECT_EQ(heir.tell("create 3 1"), 2u);
}

TEST_F(Sharing, AnOpenIpcHandleKeepsItsAllocationCharged) {
  Puppet &maker = puppet(), &opener = puppet();
  ASSERT_EQ(maker.tell("alloc 1 3"), 0u);
  ASSERT_EQ(maker.tell("ipc 1"), 0u);
  abi::CUipcMemHandle handle{};
  ASSERT_EQ(::read(maker.way.ends[0], &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
  ASSERT_EQ(::write(opener.way.ends[0], &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
  ASSERT_EQ(opener.tell("open 1"), 0u);
  EXPECT_EQ(account().used, 3 * kChunk);
  ASSERT_EQ(maker.tell("free 1"), 0u);
  EXPECT_EQ(account().used, 3 * kChunk);
  EXPECT_EQ(truth(), 3 * kChunk);
  ASSERT_EQ(opener.tell("close 1"), 0u);
  ASSERT_EQ(maker.tell("info"), 0u);
  EXPECT_EQ(account().used, 0u);
  // Opened by no process, so it is free at once.
  ASSERT_EQ(maker.tell("alloc 1 3"), 0u);
  ASSERT_EQ(maker.tell("ipc 1"), 0u);
  ASSERT_EQ(maker.tell("free 1"), 0u);
  EXPECT_EQ(account().used, 0u);
}

// Small allocations share slabs; opening one maps its slab with all neighbours.
TEST_F(Sharing, AnExportedPieceKeepsOnlyItselfCharged) {
  Puppet &maker = puppet(), &opener = puppet();
  ASSERT_EQ(maker.tell("small 1 4"), 0u);
  ASSERT_EQ(maker.tell("small 2 8"), 0u);
  ASSERT_EQ(maker.tell("ipc 1"), 0u);
  abi::CUipcMemHandle handle{};
  ASSERT_EQ(::read(maker.way.ends[0], &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
  ASSERT_EQ(::write(opener.way.ends[0], &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
  ASSERT_EQ(opener.tell("open 1"), 0u);
  EXPECT_EQ(account().used, 12u << 10);
  const std::uint64_t slab = truth();
  EXPECT_GE(slab, 12u << 10);
  ASSERT_EQ(maker.tell("free 2"), 0u);
  EXPECT_EQ(account().used, 4u << 10) << "the neighbour is free although its slab stays";
  ASSERT_EQ(maker.tell("free 1"), 0u);
  EXPECT_EQ(account().used, 4u << 10);
  EXPECT_GE(truth(), 4u << 10);
  ASSERT_EQ(opener.tell("close 1"), 0u);
  ASSERT_EQ(maker.tell("info"), 0u);
  EXPECT_EQ(account().used, 0u);
  EXPECT_EQ(truth(), 0u) << "of a slab of " << slab;
}

TEST_F(Sharing, ExternalMemoryIsChargedToItsImporter) {
  Puppet &maker = puppet(), &sibling = puppet(), &stranger = puppet("16GiB", "strangers");
  ASSERT_EQ(maker.tell("create 1 4"), 0u);
  ASSERT_EQ(maker.tell("export 1"), 0u);
  const int fd = maker.receive();
  sibling.send(fd);
  ASSERT_EQ(sibling.tell("external 1 4"), 0u);
  EXPECT_EQ(account().used, 4 * kChunk);
  stranger.send(fd);
  ASSERT_EQ(stranger.tell("external 1 4"), 0u);
  EXPECT_EQ(account("strangers").used, 4 * kChunk);
  stranger.send(fd);
  ASSERT_EQ(stranger.tell("external 0 4"), 0u);  // the import is destroyed again
  EXPECT_EQ(account("strangers").used, 4 * kChunk);
  ::close(fd);
}

// The simulator numbers the driver's steps. Before and after each of them the limiter makes steps too, so kills at the
// driver's steps cover both.
TEST_F(Sharing, AKillAtAnyStepLeavesTheHolderItsBytes) {
  Puppet& witness = puppet();
  ASSERT_EQ(witness.tell("create 1 3"), 0u);
  int killed = 0;
  for (int step = 1; step < 400; ++step) {
    ASSERT_EQ(witness.tell("export 1"), 0u);
    const int fd = witness.receive();
    kill_step_ = step;
    Puppet& victim = puppet("16GiB", "shared", {"script"});
    victim.send(fd);
    ::close(fd);
    const int status = victim.process.finish().status;
    victim.alive = false;
    ::close(victim.way.ends[0]);  // descriptors that were not received are closed with it
    ::close(victim.way.ends[1]);
    victim.way.ends[0] = victim.way.ends[1] = -1;
    ASSERT_EQ(truth(), 3 * kChunk) << "step " << step;
    ASSERT_EQ(witness.tell("info"), 0u);
    ASSERT_EQ(account().used, 3 * kChunk) << "step " << step;
    if (status == 0) break;
    ASSERT_EQ(status, 128 + SIGKILL) << "step " << step;
    ++killed;
  }
  RecordProperty("kills", killed);
  EXPECT_GT(killed, 20);
  kill_step_ = 0;
}

TEST_F(Sharing, EightRacingProcessesNeverExceedTheLimit) {
  const std::uint64_t context = sim::find_profile("h200")->context_bytes;
  const std::uint64_t limit = 9 * context + 30 * kChunk;
  const std::string memory = std::to_string(limit) + "B";
  Puppet& witness = puppet(memory);
  ASSERT_EQ(witness.tell("create 1 1"), 0u);
  std::vector<Puppet*> racers;
  for (int i = 0; i < 8; ++i) racers.push_back(&puppet(memory, "shared", {"race", "300"}));
  for (Puppet* racer : racers) racer->process.say("go\n");
  int granted = 0, refused = 0;
  std::vector<std::string> results;
  for (Puppet* racer : racers) results.push_back(racer->process.next_line());
  for (std::size_t i = 0; i < racers.size(); ++i) {
    const Outcome outcome = racers[i]->process.finish();
    racers[i]->alive = false;
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    int mine = 0, not_mine = 0;
    EXPECT_EQ(std::sscanf(results[i].c_str(), "granted %d refused %d", &mine, &not_mine), 2) << results[i];
    granted += mine;
    refused += not_mine;
  }
  EXPECT_GT(granted, 100);
  EXPECT_GT(refused, 0);
  EXPECT_LE(account().peak, limit);
  EXPECT_EQ(truth(), kChunk);
  ASSERT_EQ(witness.tell("info"), 0u);
  EXPECT_EQ(account().used, kChunk);
  RecordProperty("granted", granted);
  RecordProperty("refused", refused);
}

}  // namespace
}  // namespace headgate::e2e
