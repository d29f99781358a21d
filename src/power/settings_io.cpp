#include "power/settings_io.hpp"

#include <future>
#include <memory>
#include <mutex>
#include <utility>

#include "base/now.hpp"
#include "base/whole_number.hpp"

namespace headgate::power {
namespace {

void append(std::string& to, const std::string& text) { to += (to.empty() ? "" : "; ") + text; }

// State of one call, collected until the last command is done.
struct Run {
  struct OnGpu {
    GpuOutcome outcome;
    Settings wanted, before, after;
  };
  Run(ControlQueues& q, SetOptions o, std::function<void(std::vector<GpuOutcome>)> d)
      : queues(q), options(std::move(o)), done(std::move(d)) {}

  ControlQueues& queues;
  const SetOptions options;
  std::mutex mutex;  // guards everything below
  std::vector<OnGpu> gpus;
  std::vector<std::uint64_t> requests;
  std::size_t open = 1;  // commands without a result, plus one while sending
  std::function<void(std::vector<GpuOutcome>)> done;

  // Called with the lock held.
  void note_error(OnGpu& on, const Error& error) const {
    const bool skipped = options.skip_unsupported && error.code == ErrorCode::unsupported;
    if (!skipped && !on.outcome.error) on.outcome.error = error;
  }

  void settle() {
    std::vector<GpuOutcome> outcomes;
    {
      const std::lock_guard lock(mutex);
      if (--open != 0) return;
      for (OnGpu& on : gpus) {
        const Settings clocks = clocks_now(queues, on.outcome.index, on.wanted);
        on.after.gpu_clocks = clocks.gpu_clocks;
        on.after.mem_clocks = clocks.mem_clocks;
        on.outcome.changes = changes_between(on.before, options.dry_run ? on.wanted : on.after);
        outcomes.push_back(std::move(on.outcome));
      }
    }
    done(std::move(outcomes));
  }

  static std::vector<Change> changes_between(const Settings& before, const Settings& after) {
    std::vector<Change> changes;
    const auto had = controls_of(before);
    for (const Control& control : controls_of(after)) {
      std::string from;
      for (const Control& one : had)
        if (one.name == control.name) from = one.value;
      if (from != control.value) changes.push_back({control.name, from, control.value});
    }
    return changes;
  }
};

// `into`: where a read stores its value; nullptr for a write.
void send(const std::shared_ptr<Run>& run, std::size_t place, const Command& command, Settings Run::OnGpu::* into) {
  const std::uint32_t gpu = run->gpus[place].outcome.index;
  {
    const std::lock_guard lock(run->mutex);
    ++run->open;
  }
  const auto request =
      run->queues.submit({.gpus = {gpu},
                          .command = command,
                          .caller = run->options.caller,
                          .arrived_ns = steady_now_ns(),
                          .answer = [run, place, gpu, into, operation = command.operation](const Answers& answers) {
                            const Result<Reading>& answer = answers.at(gpu);
                            {
                              const std::lock_guard lock(run->mutex);
                              Run::OnGpu& on = run->gpus[place];
                              if (!answer) run->note_error(on, answer.error());
                              else if (into != nullptr) take_reading(operation, *answer, on.*into);
                            }
                            run->settle();
                          }});
  {
    const std::lock_guard lock(run->mutex);
    if (request) run->requests.push_back(*request);
    else run->note_error(run->gpus[place], request.error());
  }
  if (!request) run->settle();
}

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

std::function<void(const std::string&)> set_now(ControlQueues& queues, const SettingsByGpu& wanted,
                                                const SetOptions& options,
                                                std::function<void(std::vector<GpuOutcome>)> done) {
  const auto run = std::make_shared<Run>(queues, options, std::move(done));
  for (std::uint32_t index = 0; index < queues.count(); ++index) {
    const auto found = wanted.find(queues.gpu(index).identity().uuid);
    if (found == wanted.end()) continue;
    Run::OnGpu on{.outcome = {.index = index, .uuid = found->first},
                  .wanted = found->second,
                  .before = clocks_now(queues, index, found->second)};
    run->gpus.push_back(std::move(on));
  }
  for (std::size_t place = 0; place < run->gpus.size(); ++place) {
    const Settings settings = run->gpus[place].wanted;
    for (const Operation read : reads_of(settings)) send(run, place, {.operation = read}, &Run::OnGpu::before);
    if (options.dry_run) continue;
    for (const Command& write : commands_to_apply(settings)) send(run, place, write, nullptr);
    for (const Operation read : reads_of(settings)) send(run, place, {.operation = read}, &Run::OnGpu::after);
  }
  run->settle();
  return [run](const std::string& patience) {
    std::vector<std::uint64_t> requests;
    {
      const std::lock_guard lock(run->mutex);
      requests = run->requests;
    }
    for (const std::uint64_t request : requests) run->queues.withdraw(request, patience);
  };
}

}  // namespace headgate::power
