#include "power/settings_io.hpp"

#include <future>
#include <memory>
#include <utility>

#include "base/now.hpp"
#include "base/whole_number.hpp"

namespace headgate::power {
namespace {

void append(std::string& to, const std::string& text) { to += (to.empty() ? "" : "; ") + text; }

}  // namespace

Settings clocks_now(const ControlQueues& queues, std::uint32_t gpu, const Settings& like) {
  Settings now;
  if (like.gpu_clocks) now.gpu_clocks = queues.locked_clocks(gpu, Operation::set_gpu_locked_clocks);
  if (like.mem_clocks) now.mem_clocks = queues.locked_clocks(gpu, Operation::set_mem_locked_clocks);
  return now;
}

std::optional<std::uint32_t> SettingsIo::index_of(const std::string& gpu) const {
  for (std::uint32_t index = 0; index < queues_.count(); ++index)
    if (queues_.gpu(index).identity().uuid == gpu) return index;
  const auto index = whole_number<std::uint32_t>(gpu);
  return index && *index < queues_.count() ? index : std::nullopt;
}

Result<Reading> SettingsIo::command(std::uint32_t gpu, const Command& command, const Caller& caller) {
  const auto promise = std::make_shared<std::promise<Answers>>();
  auto answer = promise->get_future();
  const auto request =
      TRY(queues_.submit({.gpus = {gpu},
                          .command = command,
                          .caller = caller,
                          .arrived_ns = steady_now_ns(),
                          .answer = [promise](Answers answers) { promise->set_value(std::move(answers)); }}));
  if (answer.wait_for(patience_) != std::future_status::ready)
    queues_.withdraw(request, std::to_string(patience_.count()) + " ms");
  return answer.get().at(gpu);
}

Result<Settings> SettingsIo::read(std::uint32_t gpu, const Settings& like, const Caller& caller) {
  Settings now = clocks_now(queues_, gpu, like);
  for (const Operation read : reads_of(like)) take_reading(read, TRY(command(gpu, {.operation = read}, caller)), now);
  return now;
}

Result<void> SettingsIo::apply(const SettingsByGpu& wanted, const Caller& caller) {
  for (const auto& [uuid, settings] : wanted) {
    const auto gpu = index_of(uuid);
    if (!gpu) return fail(ErrorCode::not_found, "GPU " + uuid + " is not there");
    for (const Command& one : commands_to_apply(settings)) TRY(command(*gpu, one, caller));
    const Settings now = TRY(read(*gpu, settings, caller));
    if (now == settings) continue;
    std::string has;
    for (const Control& control : controls_of(now)) append(has, control.name + " " + control.value);
    return fail(ErrorCode::failed, "GPU " + std::to_string(*gpu) + ": took the settings, and has " + has,
                "the driver accepts values that it does not apply");
  }
  return {};
}

SettingsIo::Restored SettingsIo::restore(const SettingsByGpu& saved, const Caller& caller) {
  Restored restored;
  for (const auto& [uuid, settings] : saved) {
    const auto gpu = index_of(uuid);
    std::string trouble = gpu ? "" : "GPU " + uuid + " is not there";
    for (const Command& one : commands_to_restore(settings)) {
      if (!gpu) break;
      const auto done = command(*gpu, one, caller);
      if (!done) append(trouble, done.error().message);
      // A GPU that does not answer would cost the timeout for each value.
      if (!done && done.error().code == ErrorCode::busy) break;
    }
    if (trouble.empty()) continue;
    restored.left[uuid] = settings;
    append(restored.trouble, trouble);
  }
  return restored;
}

}  // namespace headgate::power
