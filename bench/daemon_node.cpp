#include "daemon_node.hpp"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "http/client.hpp"

namespace headgate::bench {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// utime and stime: words 12 and 13 after the name, which may contain spaces; see proc(5).
double cpu_of(const std::filesystem::path& stat) {
  std::ifstream file(stat);
  std::string line;
  std::getline(file, line);
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream words(line.substr(name_end + 1));
  std::string word;
  double ticks = 0;
  for (int field = 1; field <= 13 && words >> word; ++field)
    if (field >= 12) ticks += std::stod(word);
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace

Result<std::unique_ptr<DaemonNode>> DaemonNode::start(const Setting& setting, const std::string& profile,
                                                      std::vector<std::string> words) {
  std::unique_ptr<DaemonNode> node(new DaemonNode(setting, TRY(make_case(setting)), profile));
  for (std::string& word : words)
    if (const auto at = word.find("{runtime}"); at != std::string::npos) word.replace(at, 9, node->runtime());
  words.insert(words.begin(), {setting.daemon_program, "--sim=" + profile});
  const load::ChildSpec daemon = node->child(std::move(words));
  node->daemon_ = std::make_unique<load::Child>(TRY(load::Child::start(daemon)));
  const http::Endpoint place{.path = node->control_socket()};
  const auto deadline = steady_clock::now() + milliseconds(20'000);
  while (!http::exchange(place, {.target = "/readyz"}, milliseconds(1000))) {
    if (!node->daemon_->running() || steady_clock::now() > deadline)
      return fail(ErrorCode::failed, "headgated does not answer: " + node->daemon_->so_far().err);
    std::this_thread::sleep_for(milliseconds(20));
  }
  return node;
}

DaemonNode::~DaemonNode() {
  if (daemon_) daemon_->end(milliseconds(10'000));
  remove_case(setting_, case_);
}

std::string DaemonNode::runtime() const { return runtime_of(setting_, case_); }

std::string DaemonNode::simulated_node() const { return runtime_of(setting_, case_) + "/sim/" + profile_; }

load::ChildSpec DaemonNode::child(std::vector<std::string> line) const {
  return {.argv = std::move(line),
          .environment = {{"HEADGATE_RUNTIME_DIR", runtime_of(setting_, case_)},
                          {"XDG_STATE_HOME", setting_.directory + "/" + case_ + "/state"},
                          {"HEADGATE_SIM_DIR", simulated_node()},
                          {"LD_LIBRARY_PATH", setting_.simulator_dir}},
          .ends_with_us = true,
          .without = {"HEADGATE_*", "LD_PRELOAD"}};
}

Result<void> DaemonNode::command(std::vector<std::string> words) const {
  words.insert(words.begin(), setting_.command_program);
  TRY(load::run_child(child(std::move(words)), milliseconds(20'000)));
  return {};
}

Result<load::Child> DaemonNode::run(const std::string& share, std::vector<std::string> line) const {
  line.insert(line.begin(), {setting_.command_program, "run", "--quiet", "--share", share, "--"});
  return load::Child::start(child(std::move(line)));
}

Result<load::Child> DaemonNode::run_unlimited(std::vector<std::string> line) const {
  return load::Child::start(child(std::move(line)));
}

void DaemonNode::kill() {
  ::kill(daemon_->pid(), SIGKILL);
  (void)daemon_->wait(steady_clock::now() + milliseconds(5000));
}

Result<sim::Truth> DaemonNode::truth() const { return sim::read_truth(simulated_node()); }

Result<std::vector<double>> DaemonNode::metrics(const std::vector<std::string>& samples) const {
  const http::Endpoint place{.path = control_socket()};
  const auto page = TRY(http::exchange(place, {.target = "/metrics"}, milliseconds(5000)));
  std::vector<double> values;
  for (const std::string& sample : samples) {
    const auto at = page.body.find("\n" + sample + " ");
    if (at == std::string::npos) return fail(ErrorCode::failed, "headgated's /metrics has no " + sample);
    values.push_back(std::strtod(page.body.c_str() + at + sample.size() + 2, nullptr));
  }
  return values;
}

double DaemonNode::cpu_seconds(std::string_view thread) const {
  const std::filesystem::path process = "/proc/" + std::to_string(daemon_->pid());
  if (thread.empty()) return cpu_of(process / "stat");
  double seconds = 0;
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator(process / "task", gone)) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm") >> std::ws, name);
    if (name == thread) seconds += cpu_of(task.path() / "stat");
  }
  return seconds;
}

std::uint64_t DaemonNode::resident_bytes() const {
  std::uint64_t size = 0, resident = 0;
  std::ifstream("/proc/" + std::to_string(daemon_->pid()) + "/statm") >> size >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace headgate::bench
