#include "power/set_now.hpp"

#include <memory>
#include <mutex>
#include <utility>

#include "base/now.hpp"
#include "power/settings_io.hpp"

namespace headgate::power {
namespace {

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
