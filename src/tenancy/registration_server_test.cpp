#include "tenancy/registration_server.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <random>

#include "tenancy/test_registration.hpp"

namespace headgate::tenancy {
namespace {

TEST_F(TenantSocket, AKilledProcessIsReleasedAtOnceByItsPidfd) {
  const Tenant tenant = start_tenant([] { return true; });
  ASSERT_TRUE(told(tenant)) << "exit status " << end(tenant);
  ASSERT_EQ(joined_.size(), 1u);
  EXPECT_EQ(joined_[0].process.pid, static_cast<std::uint32_t>(tenant.pid));
  EXPECT_EQ(ledger::used_bytes(usage(), 0), kGiB);
  // The connection is closed while the process lives on.
  ASSERT_TRUE(until([&] { return doors_->connections() == 0; }));
  EXPECT_EQ(processes_->count_in("s"), 1u);
  end(tenant);
  ASSERT_TRUE(until([&] { return !left_.empty(); }));
  EXPECT_EQ(ledger::used_bytes(usage(), 0), 0u);
  EXPECT_EQ(ledger::live_slots(usage()), 0u);
}

// exec() keeps pid and start time, and the driver releases what the former program had.
TEST_F(TenantSocket, AProcessThatExecsKeepsNoSlot) {
  const Tenant tenant = start_tenant([] { return true; });
  ASSERT_TRUE(told(tenant));
  processes_->adopt();
  EXPECT_TRUE(left_.empty());
  ASSERT_EQ(::kill(tenant.pid, SIGUSR1), 0);
  ASSERT_TRUE(until([&] {
    processes_->adopt();
    return !left_.empty();
  }));
  EXPECT_EQ(ledger::used_bytes(usage(), 0), 0u);
  EXPECT_EQ(ledger::live_slots(usage()), 0u);
  EXPECT_EQ(processes_->count_in("s"), 0u);
  end(tenant);
}

TEST_F(TenantSocket, AnEndedProcessReleasesExactlyWhatItHeld) {
  const Tenant ends = start_tenant([] { return true; }), stays = start_tenant([] { return true; });
  ASSERT_TRUE(told(ends) && told(stays));
  end(ends);
  ASSERT_TRUE(until([&] { return !left_.empty(); }));
  EXPECT_EQ(ledger::used_bytes(usage(), 0), kGiB);
  EXPECT_EQ(ledger::live_slots(usage()), 1u);
  end(stays);
}

TEST_F(TenantSocket, ASharesDeadDoorbellIsReplacedAtALimitedRate) {
  const auto now = std::chrono::steady_clock::now();
  const auto bell_of_a_newcomer = [&] {
    const UniqueFd socket = connect_to(directory());
    EXPECT_TRUE(say(socket.get(), hello()));
    return std::move(answer(socket.get()).descriptors[2]);
  };
  ::shutdown(bell_of_a_newcomer().get(), SHUT_RDWR);
  EXPECT_EQ(::send(bell_of_a_newcomer().get(), "t", 1, MSG_NOSIGNAL), -1);
  const auto ours = doors_->new_bell("s", now);
  ASSERT_TRUE(ours && *ours);
  EXPECT_EQ(::send(bell_of_a_newcomer().get(), "t", 1, MSG_NOSIGNAL), 1);
  char said = 0;
  EXPECT_EQ(::recv(ours->get(), &said, 1, MSG_DONTWAIT), 1);
  EXPECT_FALSE(*doors_->new_bell("s", now + ShareListener::kBellsApart - 1ms));
  EXPECT_TRUE(*doors_->new_bell("s", now + ShareListener::kBellsApart));
  EXPECT_FALSE(*doors_->new_bell("missing", now));
}

TEST_F(TenantSocket, AnAskingShareGivesASlotOnlyAfterTheAnswer) {
  Share share = shares_->find("s")->share;
  share.admit = Admit::ask;
  ASSERT_TRUE(shares_->set(share));
  for (const bool allow : {false, true}) {
    const UniqueFd socket = connect_to(directory());
    ASSERT_TRUE(say(socket.get(), hello()));
    const Heard welcome = answer(socket.get());
    ASSERT_EQ(welcome.head.type, ledger::MessageType::welcome);
    const ledger::SlotRef slot = ledger::seat(usage(), ledger::own_identity());
    ASSERT_TRUE(say(socket.get(), ledger::Claimed{ledger::head_of<ledger::Claimed>(ledger::MessageType::claimed),
                                                  slot.slot, slot.generation}));
    EXPECT_EQ(answer(socket.get()).head.type, ledger::MessageType::hold);
    ASSERT_TRUE(until([&] { return decide_ != nullptr; }));
    EXPECT_EQ(asked_.back().process.pid, static_cast<std::uint32_t>(::getpid()));
    std::exchange(decide_, nullptr)(allow ? Result<void>() : fail(ErrorCode::denied, "full until noon"));
    const Heard last = answer(socket.get());
    EXPECT_EQ(last.head.type, allow ? ledger::MessageType::seated : ledger::MessageType::refuse);
    EXPECT_EQ(last.text, allow ? "" : "full until noon");
    EXPECT_EQ(admitted_.size(), allow ? 1u : 0u) << "a process that was refused never joined";
    ledger::release(usage(), slot);
  }
  EXPECT_EQ(taken_back_, 0);
}

TEST_F(TenantSocket, AQuestionIsWithdrawnWithItsProcess) {
  Share share = shares_->find("s")->share;
  share.admit = Admit::ask;
  ASSERT_TRUE(shares_->set(share));
  open_doors({.answer = 100ms});
  for (const bool stays : {false, true}) {
    UniqueFd socket = connect_to(directory());
    ASSERT_TRUE(say(socket.get(), hello()));
    ASSERT_EQ(answer(socket.get()).head.type, ledger::MessageType::welcome);
    const ledger::SlotRef slot = ledger::seat(usage(), ledger::own_identity());
    ASSERT_TRUE(say(socket.get(), ledger::Claimed{ledger::head_of<ledger::Claimed>(ledger::MessageType::claimed),
                                                  slot.slot, slot.generation}));
    EXPECT_EQ(answer(socket.get()).head.type, ledger::MessageType::hold);
    if (!stays) socket.reset();
    EXPECT_TRUE(until([&] { return taken_back_ == (stays ? 2 : 1); }));
    if (stays) {
      EXPECT_EQ(answer(socket.get()).text, "no scheduler answered in time");
    }
    ledger::release(usage(), slot);
  }
  EXPECT_TRUE(until([&] { return doors_->connections() == 0; }));
}

TEST_F(TenantSocket, WaitingProcessesEnterOnceTheShareStopsAsking) {
  Share asks = shares_->find("s")->share;
  asks.admit = Admit::ask;
  Share asks_no_more = asks;
  asks_no_more.admit = Admit::now;
  struct Case {
    std::function<void()> change;
    bool seated;
    std::string why;
  };
  const std::vector<Case> cases = {
      {[&] { ASSERT_TRUE(shares_->set(asks_no_more)); }, true, "the share asks no more, and it is in"},
      {[&] { ASSERT_TRUE(shares_->drain("s")); }, false, std::string(ledger::kDrainingWords)}};
  for (const Case& one : cases) {
    ASSERT_TRUE(shares_->set(asks));
    const UniqueFd socket = connect_to(directory());
    ASSERT_TRUE(say(socket.get(), hello()));
    ASSERT_EQ(answer(socket.get()).head.type, ledger::MessageType::welcome);
    const ledger::SlotRef slot = ledger::seat(usage(), ledger::own_identity());
    ASSERT_TRUE(say(socket.get(), ledger::Claimed{ledger::head_of<ledger::Claimed>(ledger::MessageType::claimed),
                                                  slot.slot, slot.generation}));
    ASSERT_EQ(answer(socket.get()).head.type, ledger::MessageType::hold);
    taken_back_ = 0;
    doors_->reconsider("s");
    context_.restart();
    context_.poll();
    EXPECT_EQ(taken_back_, 0) << "a share that still asks has it wait";
    one.change();
    doors_->reconsider("s");
    const Heard last = answer(socket.get());
    EXPECT_EQ(last.head.type, one.seated ? ledger::MessageType::seated : ledger::MessageType::refuse) << last.text;
    EXPECT_EQ(last.text, one.seated ? "" : one.why);
    EXPECT_EQ(taken_back_, 1);
    EXPECT_EQ(taken_back_for_, one.why);
    ledger::release(usage(), slot);
  }
}

TEST_F(TenantSocket, ARestartedDaemonBindsAgainAndAdoptsProcesses) {
  const Tenant first = start_tenant([] { return true; });
  ASSERT_TRUE(told(first));
  // Holds the directory as a mount of it does.
  const UniqueFd mounted(::open(directory().c_str(), O_PATH | O_CLOEXEC));
  open_doors({});
  EXPECT_EQ(processes_->adopt(), 0u);
  ASSERT_EQ(processes_->count_in("s"), 1u);
  processes_->each([&](const TenantProcess& process) {
    EXPECT_TRUE(process.adopted);
    EXPECT_EQ(process.process.pid, static_cast<std::uint32_t>(first.pid));
  });
  EXPECT_TRUE(connect_to("/proc/self/fd/" + std::to_string(mounted.get())));
  end(first);
  ASSERT_TRUE(until([&] { return !left_.empty(); }));
  EXPECT_EQ(ledger::used_bytes(usage(), 0), 0u);
}

// A limiter that renews its bell does not report its seat again: in a share that asks first it would be asked about.
TEST_F(TenantSocket, AProcessThatWantsAnotherDoorbellKeepsItsSlot) {
  ledger::SlotRef slot = ledger::seat(usage(), ledger::own_identity());
  processes_->adopt();
  const auto greet = [&] {
    const UniqueFd socket = connect_to(directory());
    EXPECT_TRUE(say(socket.get(), hello()));
    EXPECT_EQ(answer(socket.get()).head.type, ledger::MessageType::welcome);
    TenantProcess found;
    processes_->each([&](const TenantProcess& process) { found = process; });
    return found;
  };
  const TenantProcess known = greet();
  ASSERT_TRUE(known.slot);
  EXPECT_EQ(known.slot->slot, slot.slot);
  EXPECT_EQ(known.slot->generation, slot.generation);
  EXPECT_TRUE(known.adopted) << "that seat was not reported yet";
  ledger::release(usage(), slot);
  slot = ledger::seat(usage(), ledger::own_identity());
  EXPECT_FALSE(greet().slot) << "that is another seat";
  EXPECT_EQ(processes_->count_in("s"), 1u);
}

TEST_F(TenantSocket, SlotsOfProcessesThatDiedMeanwhileAreFreed) {
  const Tenant tenant = start_tenant([] { return true; });
  ASSERT_TRUE(told(tenant));
  doors_.reset();
  processes_.reset();
  end(tenant);
  open_doors({});
  EXPECT_EQ(processes_->adopt(), 1u);
  EXPECT_EQ(ledger::used_bytes(usage(), 0), 0u);
}

TEST_F(TenantSocket, AFalseSlotHasNoEffectOnTheNamedProcess) {
  const Tenant tenant = start_tenant([] { return true; });
  ASSERT_TRUE(told(tenant));
  const auto init = identity::read_process("/proc", static_cast<std::uint32_t>(::getppid()));
  ASSERT_TRUE(init);
  ledger::SlotRef forged;
  ASSERT_EQ(ledger::claim(usage(), {init->pid, init->pidns_inode, init->start_time}, "x", forged),
            ledger::ClaimResult::claimed);
  EXPECT_EQ(processes_->adopt(), 1u);
  EXPECT_EQ(processes_->count_in("s"), 1u);
  EXPECT_EQ(ledger::live_slots(usage()), 1u);
  end(tenant);
}

TEST_F(TenantSocket, ATenantWithAnotherUidNeedsNoFileRights) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can become another user";
  Share share = shares_->find("s")->share;
  share.users = {65534};
  ASSERT_TRUE(shares_->set(share));
  const Tenant nobody = start_tenant([] { return ::setgid(65534) == 0 && ::setuid(65534) == 0; });
  ASSERT_TRUE(told(nobody)) << "exit status " << end(nobody);
  EXPECT_EQ(joined_.at(0).uid, 65534u);
  const Tenant stranger = start_tenant([] { return ::setgid(1234) == 0 && ::setuid(1234) == 0; });
  const auto has_exited = [&] {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(stranger.pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
  };
  ASSERT_TRUE(until(has_exited));
  EXPECT_EQ(end(stranger), 11);  // no welcome
  EXPECT_EQ(joined_.size(), 1u);
  end(nobody);
}

TEST_F(TenantSocket, ATenantInSeparateNamespacesIsKnownByHostPid) {
  Share share = shares_->find("s")->share;
  if (::geteuid() == 0) share.users = {1234};
  ASSERT_TRUE(shares_->set(share));
  const auto unshared = [] {
    if (::geteuid() == 0 && (::setgid(1234) != 0 || ::setuid(1234) != 0)) return false;
    if (::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) return false;
    const pid_t inner = ::fork();  // the first process inside has pid 1 there
    if (inner == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      return true;
    }
    int status = 0;
    ::waitpid(inner, &status, 0);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  };
  const Tenant tenant = start_tenant(unshared);
  if (!told(tenant)) {
    const int status = end(tenant);
    if (status == 9) GTEST_SKIP() << "skipped: this kernel gives no user namespaces to unprivileged users";
    FAIL() << "exit status " << status;
  }
  ASSERT_EQ(joined_.size(), 1u);
  EXPECT_EQ(joined_[0].process.namespace_pid, 1u);
  EXPECT_NE(joined_[0].process.pid, static_cast<std::uint32_t>(tenant.pid));
  EXPECT_EQ(joined_[0].seat.pid, 1u);
  // Adoption finds it too, by the identity in its slot.
  open_doors({});
  EXPECT_EQ(processes_->adopt(), 0u);
  EXPECT_EQ(processes_->count_in("s"), 1u);
  end(tenant);
  ASSERT_TRUE(until([&] { return !left_.empty(); }));
  EXPECT_EQ(ledger::used_bytes(usage(), 0), 0u);
}

TEST_F(TenantSocket, AnotherVersionIsRefusedWithOurs) {
  for (const bool of_pages : {false, true}) {
    const UniqueFd socket = connect_to(directory());
    ledger::Hello other = hello();
    (of_pages ? other.page_version : other.head.version) += 1;
    ASSERT_TRUE(say(socket.get(), other));
    const Heard heard = answer(socket.get());
    EXPECT_EQ(heard.head.type, ledger::MessageType::refuse);
    EXPECT_NE(heard.text.find("headgated speaks registration 1 with pages"), std::string::npos) << heard.text;
  }
  EXPECT_TRUE(lies_.empty());
}

TEST_F(TenantSocket, AFalseIdentityOrSlotIsNamed) {
  const UniqueFd socket = connect_to(directory());
  ledger::Hello other = hello();
  other.pid = 1;
  ASSERT_TRUE(say(socket.get(), other));
  EXPECT_EQ(answer(socket.get()).head.type, ledger::MessageType::refuse);
  ASSERT_EQ(lies_.size(), 1u);
  EXPECT_EQ(lies_[0], "called itself pid 1");
  const UniqueFd elsewhere = connect_to(directory());
  other = hello();
  other.pidns_inode += 1;
  ASSERT_TRUE(say(elsewhere.get(), other));
  EXPECT_EQ(answer(elsewhere.get()).head.type, ledger::MessageType::refuse)
      << "it is in no other namespace than it is in";
  EXPECT_EQ(lies_.size(), 2u);
  const Tenant tenant = start_tenant([] { return true; });
  ASSERT_TRUE(told(tenant));
  const UniqueFd thief = connect_to(directory());
  ASSERT_TRUE(say(thief.get(), hello()));
  ASSERT_EQ(answer(thief.get()).head.type, ledger::MessageType::welcome);
  const ledger::SlotRef theirs = *joined_.at(0).slot.or_else(
      [&] { return std::optional(ledger::SlotRef{0, ledger::view(usage(), 0).generation}); });
  ASSERT_TRUE(say(thief.get(), ledger::Claimed{ledger::head_of<ledger::Claimed>(ledger::MessageType::claimed),
                                               theirs.slot, theirs.generation}));
  EXPECT_EQ(answer(thief.get()).text, "slot " + std::to_string(theirs.slot) + " is not yours");
  EXPECT_EQ(lies_.size(), 3u);
  EXPECT_EQ(ledger::used_bytes(usage(), 0), kGiB);
  end(tenant);
}

TEST_F(TenantSocket, ATenantThatFuzzesMessagesHarmsNoOther) {
  const Tenant tenant = start_tenant([] { return true; });
  ASSERT_TRUE(told(tenant));
  std::mt19937 random(5);
  for (int round = 0; round < 600; ++round) {
    const UniqueFd socket = connect_to(directory());
    ASSERT_TRUE(socket) << round;
    std::string bytes;
    if (round % 3 == 0) {
      bytes.resize(random() % 400);
      for (char& c : bytes) c = static_cast<char>(random());
    } else {
      const ledger::Hello good = hello();
      bytes.assign(reinterpret_cast<const char*>(&good), sizeof good);
      if (round % 3 == 1) bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
      else bytes.resize(random() % sizeof good);
    }
    (void)::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (round % 4 == 0) {
      ledger::Claimed claimed{ledger::head_of<ledger::Claimed>(ledger::MessageType::claimed),
                              static_cast<std::uint32_t>(random()), static_cast<std::uint32_t>(random())};
      (void)::send(socket.get(), &claimed, sizeof claimed - random() % 2, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    context_.restart();
    context_.poll();
  }
  ASSERT_TRUE(until([&] { return doors_->connections() == 0; }));
  EXPECT_EQ(ledger::used_bytes(usage(), 0), kGiB);
  EXPECT_FALSE(lies_.empty());
  const Tenant next = start_tenant([] { return true; });
  EXPECT_TRUE(told(next));
  end(tenant);
  end(next);
}

TEST_F(TenantSocket, SilentConnectionsDelayOthersByOneRegistration) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < 2500) {
    files.rlim_cur = std::min<rlim_t>(files.rlim_max, 4096);
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  open_doors({.connections = 256, .connections_of_a_share = 64, .conversation = 300ms});
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 1000; ++i) {
    if (UniqueFd socket = connect_to(directory()); socket) silent.push_back(std::move(socket));
    context_.restart();
    context_.poll();
    ASSERT_LE(doors_->connections(), 64u);
  }
  EXPECT_EQ(silent.size(), 1000u);
  const auto descriptors = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); };
  ASSERT_TRUE(until([&] { return doors_->connections() == 0; }));
  const Tenant tenant = start_tenant([] { return true; });
  EXPECT_TRUE(told(tenant));
  end(tenant);
  silent.clear();
  EXPECT_LT(descriptors(), 200);
}

// A user may have many shares and flood all their sockets: what each accepts before another is served adds up.
TEST_F(TenantSocket, OtherSocketsAreServedBeforeACrowdedOne) {
  ASSERT_TRUE(shares_->create(share_of("t", ::geteuid(), 8 * kGiB)));
  ASSERT_TRUE(doors_->open_all());
  std::vector<UniqueFd> crowd;
  for (int i = 0; i < 100; ++i) crowd.push_back(connect_to(directory()));
  const UniqueFd one = connect_to(shares_->directory("t"));
  ASSERT_TRUE(say(one.get(), hello()));
  EXPECT_EQ(answer(one.get()).head.type, ledger::MessageType::welcome);
  const auto refused = std::ranges::count_if(crowd, [](const UniqueFd& socket) {
    pollfd fd{socket.get(), POLLIN, 0};
    return ::poll(&fd, 1, 0) > 0;
  });
  EXPECT_LT(static_cast<std::size_t>(refused) + doors_->connections(), 16u);
}

TEST_F(TenantSocket, ATenantCanMuteOnlyItsOwnDoorbell) {
  const UniqueFd socket = connect_to(directory());
  ASSERT_TRUE(say(socket.get(), hello()));
  const Heard welcome = answer(socket.get());
  ASSERT_EQ(welcome.head.type, ledger::MessageType::welcome);
  const int bell = welcome.descriptors[2].get();
  // File flags are not shared: the tenant's end blocks now, and the daemon still does not wait.
  ::fcntl(bell, F_SETFL, ::fcntl(bell, F_GETFL) & ~O_NONBLOCK);
  char byte = 0;
  EXPECT_EQ(::recv(bell_.get(), &byte, 1, 0), -1);
  EXPECT_EQ(errno, EAGAIN);
  ASSERT_EQ(::send(bell, "!", 1, MSG_DONTWAIT), 1);
  EXPECT_EQ(::recv(bell_.get(), &byte, 1, 0), 1);
  ::shutdown(bell, SHUT_RDWR);
  const Tenant tenant = start_tenant([] { return true; });
  EXPECT_TRUE(told(tenant));
  end(tenant);
}

TEST_F(TenantSocket, ARemovedSharesSocketIsClosed) {
  const Tenant tenant = start_tenant([] { return true; });
  ASSERT_TRUE(told(tenant));
  EXPECT_FALSE(shares_->remove("s"));
  end(tenant);
  ASSERT_TRUE(until([&] { return !left_.empty(); }));
  doors_->close("s");
  ASSERT_TRUE(shares_->remove("s"));
  processes_->forget("s");
  EXPECT_FALSE(std::filesystem::exists(directory()));
  EXPECT_FALSE(doors_->open("s"));
}

TEST_F(TenantSocket, AnUnreachableSocketIsNamed) {
  EXPECT_TRUE(doors_->shut().empty());
  std::filesystem::remove(directory() + "/tenant.sock");
  EXPECT_EQ(doors_->shut(), std::vector<std::string>{"s"});
  ASSERT_TRUE(doors_->open("s"));
  EXPECT_TRUE(doors_->shut().empty());
  doors_->close("s");
  EXPECT_EQ(doors_->shut(), std::vector<std::string>{"s"});
}

}  // namespace
}  // namespace headgate::tenancy
