#include "demo/demo_node.hpp"

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/share/daemon.hpp"
#include "install/paths.hpp"

namespace headgate::demo {

using namespace cli;  // terminal, views, daemon client
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kStartPatience = std::chrono::seconds(15);

std::string first_words(const std::string& said) {
  const std::string text = said.substr(0, said.find_last_not_of('\n') + 1);
  return text.size() > 400 ? text.substr(0, 400) + " ..." : text;
}

}  // namespace

Result<DemoNode> DemoNode::start() {
  PrivateNode files = TRY(PrivateNode::make());
  load::ChildSpec spec;
  spec.argv = {TRY(install::daemon_program()), "--sim", "--state", files.path() + "/state"};
  spec.environment = {{"HEADGATE_SIM_DIR", files.node()}, {"HEADGATE_RUNTIME_DIR", files.runtime()}};
  spec.without = not_ours();
  spec.ends_with_us = true;
  load::Child headgated = TRY(load::Child::start(spec));
  DemoNode node(std::move(files), std::move(headgated), {});
  node.daemon_.path = node.files_.runtime() + "/control/headgate.sock";
  for (const auto deadline = Clock::now() + kStartPatience; !ask(node.daemon_, "GET", "/readyz");) {
    TRY(node.check());
    if (Clock::now() > deadline)
      return fail(ErrorCode::failed,
                  "headgated was not ready within 15 s: " + first_words(node.headgated_.so_far().err),
                  "the machine may be too busy; try again");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return node;
}

Result<void> DemoNode::check() {
  if (headgated_.running()) return {};
  const load::ChildEnd& end = headgated_.so_far();
  return fail(ErrorCode::failed,
              "headgated ended with status " + std::to_string(end.status) + ": " + first_words(end.err));
}

Result<void> DemoNode::make_share(const DemoTenant& tenant) const {
  nlohmann::ordered_json body;
  for (const auto& [key, value] : tenant.order) body[key] = value;
  TRY(ask(daemon_, "POST", "/v1/shares", body.dump()));
  return {};
}

Result<load::Child> DemoNode::start_tenant(const DemoTenant& tenant) const {
  load::ChildSpec spec;
  spec.argv = {install::own_executable(), "run", "--share=" + tenant.name, "--"};
  spec.argv.insert(spec.argv.end(), tenant.command.begin(), tenant.command.end());
  spec.argv.push_back(TRY(install::private_program("headgate-load")));
  spec.argv.insert(spec.argv.end(), tenant.load_arguments.begin(), tenant.load_arguments.end());
  spec.environment = {{"HEADGATE_SOCKET", daemon_.path}, {"HEADGATE_RUNTIME_DIR", files_.runtime()}};
  spec.without = not_ours();
  spec.ends_with_us = true;
  return load::Child::start(spec);
}

void DemoNode::end() { headgated_.end(std::chrono::seconds(3)); }

}  // namespace headgate::demo
