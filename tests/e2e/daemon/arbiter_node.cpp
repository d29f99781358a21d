#include "arbiter_node.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>
#include <thread>

#include "guest/ledger/registration.hpp"
#include "node/arbitration.hpp"
#include "tenancy/tenant_messages.hpp"

namespace headgate::e2e {
namespace {

// Serves a share's tenant socket like the daemon (tenancy/registration_server.hpp), for honest tenants only.
void keep_door(const std::string& directory, const std::string& share, std::uint64_t generation, int bell) {
  const UniqueFd policy(::open((directory + "/policy").c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd usage(::open((directory + "/usage").c_str(), O_RDWR | O_CLOEXEC));
  const UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = directory + "/" + ledger::kTenantSocket;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  ::unlink(path.c_str());
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) ::_exit(3);
  ::listen(listener.get(), 64);
  for (;;) {
    const UniqueFd peer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ledger::Hello hello{};
    if (!peer || ::recv(peer.get(), static_cast<void*>(&hello), sizeof hello, 0) != sizeof hello) continue;
    ledger::Welcome welcome{ledger::head_of<ledger::Welcome>(ledger::MessageType::welcome), {}, generation};
    std::memcpy(welcome.share, share.data(), share.size());
    const std::array<int, 3> descriptors = {policy.get(), usage.get(), bell};
    tenancy::say(peer.get(), welcome, descriptors);
    ledger::Claimed claimed{};
    if (::recv(peer.get(), static_cast<void*>(&claimed), sizeof claimed, 0) == sizeof claimed)
      tenancy::say(peer.get(), ledger::Seated{ledger::head_of<ledger::Seated>(ledger::MessageType::seated)});
  }
}

}  // namespace

void rest_ms(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

ArbiterNode::ArbiterNode(std::string profile) : profile_(std::move(profile)) {
  auto variables = environment();
  Program first({HEADGATE_LOAD, "--duration=1ms", "--no-idle-list"}, variables);
  EXPECT_EQ(first.wait(), 0) << first.errors();
  for (const auto& device : truth().devices) gpus_.push_back(device.uuid);
}

ArbiterNode::~ArbiterNode() {
  tenants_.clear();
  kill_arbiter();
  for (auto& [name, share] : shares_) ledger::close_pages(share.pages);
}

std::map<std::string, std::string> ArbiterNode::environment() const {
  return {{"HEADGATE_SIM_DIR", directory() + "/node"},
          {"HEADGATE_SIM_PROFILE", profile_},
          {"LD_LIBRARY_PATH", SIMULATOR_DIR},
          {"HEADGATE_LOG", "warn"}};
}

void ArbiterNode::share(const std::string& name, const ShareWish& wish) {
  ledger::ShareGrant grant;
  std::strncpy(grant.name, name.c_str(), sizeof grant.name - 1);
  for (const unsigned gpu : wish.gpus) {
    ledger::DeviceGrant& device = grant.devices[grant.device_count++];
    std::strncpy(device.uuid, gpus_.at(gpu).c_str(), sizeof device.uuid - 1);
    device.weight = wish.weight;
    device.priority_class = wish.priority_class;
    device.compute_guarantee_ppm = wish.guarantee_ppm;
    device.compute_ceiling_ppm = wish.ceiling_ppm;
  }
  Share& made = shares_[name];
  made.wish = wish;
  const auto bad = ledger::create_share((directory() + "/run").c_str(), grant, ledger::Access::owner, made.pages);
  ASSERT_FALSE(bad) << static_cast<int>(bad.error);
}

void ArbiterNode::serve(schedule::Policy policy) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  node::Arbitration arbitration(gpus_);
  for (std::uint32_t gpu = 0; gpu < gpus_.size(); ++gpu) arbitration.set_policy(gpu, policy);
  if (!arbitration.start()) ::_exit(1);
  const std::string base = directory() + "/run";
  for (const auto& [name, share] : shares_) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) ::_exit(1);
    if (!arbitration.add(base, name, share.wish.gang, UniqueFd(ends[0]))) ::_exit(2);
    std::thread(keep_door, base + "/shares/" + name, name, share.pages.policy->generation, ends[1]).detach();
  }
  for (;;) ::pause();
}

void ArbiterNode::start(schedule::Policy policy) {
  arbiter_ = ::fork();
  ASSERT_GE(arbiter_, 0);
  if (arbiter_ == 0) serve(policy);
  const auto open = [this] {
    for (const auto& [name, share] : shares_)
      if (::access((directory() + "/run/shares/" + name + "/" + ledger::kTenantSocket).c_str(), F_OK) != 0)
        return false;
    return true;
  };
  ASSERT_TRUE(eventually(open));
}

void ArbiterNode::kill_arbiter() {
  if (arbiter_ <= 0) return;
  ::kill(arbiter_, SIGKILL);
  ::waitpid(arbiter_, nullptr, 0);
  arbiter_ = -1;
}

void ArbiterNode::stop_arbiter(bool stopped) const { ::kill(arbiter_, stopped ? SIGSTOP : SIGCONT); }

std::unique_ptr<Program> ArbiterNode::run(const std::string& share, const std::vector<std::string>& line) const {
  auto variables = environment();
  variables["LD_PRELOAD"] = HEADGATE_LIMITER;
  variables["HEADGATE_SHARE_DIR"] = directory() + "/run/shares/" + share;
  return std::make_unique<Program>(line, variables);
}

Program& ArbiterNode::load(const std::string& share, const std::vector<std::string>& words) {
  std::vector<std::string> line = {HEADGATE_LOAD, "--duration=60s", "--no-idle-list"};
  line.insert(line.end(), words.begin(), words.end());
  return *tenants_.emplace_back(run(share, line));
}

sim::Truth ArbiterNode::truth() const {
  auto read = sim::read_truth(directory() + "/node");
  if (!read) throw std::runtime_error(read.error().message);
  return *std::move(read);
}

std::uint64_t ArbiterNode::held_ns(const Program& tenant, unsigned device) const {
  std::uint64_t sum = 0;
  const sim::Truth now = truth();
  for (const sim::ProcessTruth& process : now.devices.at(device).processes)
    if (process.pid == tenant.pid()) sum += process.held_ns;
  return sum;
}

std::vector<double> ArbiterNode::split(int milliseconds, unsigned device) const {
  const auto look = [&] {
    const sim::Truth read = truth();
    std::vector<double> held = {static_cast<double>(read.now_ns)};
    for (const auto& tenant : tenants_) {
      held.push_back(0);
      for (const sim::ProcessTruth& process : read.devices.at(device).processes)
        if (process.pid == tenant->pid()) held.back() += static_cast<double>(process.held_ns);
    }
    return held;
  };
  const auto before = look();
  rest_ms(milliseconds);
  const auto after = look();
  std::vector<double> percent;
  for (std::size_t i = 1; i < before.size(); ++i)
    percent.push_back(100 * (after[i] - before[i]) / (after[0] - before[0]));
  return percent;
}

void ArbiterNode::all_at_work(unsigned device) const {
  const auto at_work = [&] {
    for (const auto& tenant : tenants_)
      if (held_ns(*tenant, device) < 5'000'000) return false;
    return true;
  };
  if (eventually(at_work)) return;
  for (const auto& tenant : tenants_) {
    tenant->kill_now();
    tenant->wait();
    ADD_FAILURE() << "never at work: " << tenant->errors();
  }
}

}  // namespace headgate::e2e
