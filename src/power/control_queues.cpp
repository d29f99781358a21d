#include "power/control_queues.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/now.hpp"

namespace headgate::power {
namespace {

std::string gpu_name(std::uint32_t index) { return "GPU " + std::to_string(index); }

Error ended_error(std::uint32_t index, const std::string& why) {
  return {ErrorCode::failed, gpu_name(index) + ": its control thread has ended (" + why + ")", "restart the daemon"};
}

std::string clocks_text(const ClockRange& clocks) { return clocks.max_mhz == 0 ? "" : megahertz_text(clocks); }

}  // namespace

ControlQueues::ControlQueues(std::vector<std::unique_ptr<GpuManager>> gpus, std::function<void(const Executed&)> done,
                             std::size_t depth)
    : gpus_(std::move(gpus)), done_(std::move(done)), depth_(depth), queues_(gpus_.size()) {
  running_ = gpus_.size();
  for (std::uint32_t index = 0; index < gpus_.size(); ++index) {
    workers_.emplace_back([this, index] {
      work(index);
      const std::lock_guard lock(mutex_);
      --running_;
      stopped_.notify_all();
    });
  }
}

ControlQueues::~ControlQueues() { (void)stops_within({}); }

bool ControlQueues::stops_within(std::chrono::nanoseconds patience) {
  std::vector<std::uint64_t> open;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const auto& [request, batch] : batches_) open.push_back(request);
    for (Queue& queue : queues_) queue.wake.notify_all();
  }
  for (const std::uint64_t request : open) withdraw(request, "the daemon's end");
  std::unique_lock lock(mutex_);
  return stopped_.wait_for(lock, patience, [this] { return running_ == 0; });
}

Result<std::uint64_t> ControlQueues::submit(Request request) {
  const std::lock_guard lock(mutex_);
  for (const std::uint32_t index : request.gpus) {
    if (index >= gpus_.size())
      return fail(ErrorCode::not_found, "GPU index " + std::to_string(index) + " does not exist.",
                  gpus_.empty() ? "this machine has no GPU" : "accepted: 0 to " + std::to_string(gpus_.size() - 1));
  }
  // Only commands after the last blocking one, because its caller may rely on values set before it.
  const auto first_unawaited = [](Queue& queue) {
    auto first = queue.items.end();
    while (first != queue.items.begin() && std::prev(first)->batch == nullptr) --first;
    return first;
  };
  const bool awaited = static_cast<bool>(request.answer);
  const auto is_superseded = [&](const Item& item) { return !awaited && supersedes(request.command, item.command); };
  for (const std::uint32_t index : request.gpus) {
    Queue& queue = queues_[index];
    if (queue.ended || stopping_) return std::unexpected(ended_error(index, queue.ended.value_or("the daemon ends")));
    const auto replaced = std::count_if(first_unawaited(queue), queue.items.end(), is_superseded);
    if (queue.items.size() - static_cast<std::size_t>(replaced) >= depth_)
      return fail(ErrorCode::busy, gpu_name(index) + ": " + std::to_string(depth_) + " commands wait already",
                  "wait for them: call with block=true, or call again later");
  }

  const std::uint64_t number = ++last_request_;
  std::shared_ptr<Batch> batch;
  if (awaited) {
    batch = std::make_shared<Batch>(Batch{number, request.gpus, {}, std::move(request.answer)});
    batches_[number] = batch;
  }
  const std::uint64_t now_ns = steady_now_ns();
  for (const std::uint32_t index : request.gpus) {
    Queue& queue = queues_[index];
    std::uint64_t replaced = 0;
    for (auto item = first_unawaited(queue); item != queue.items.end();) {
      if (!is_superseded(*item)) {
        ++item;
        continue;
      }
      replaced += 1 + item->superseded;
      item = queue.items.erase(item);
    }
    queue.items.push_back(Item{.command = request.command,
                               .request = number,
                               .caller = request.caller,
                               .arrived_ns = request.arrived_ns,
                               .queued_ns = now_ns,
                               .superseded = replaced,
                               .batch = batch});
    queue.wake.notify_one();
  }
  return number;
}

void ControlQueues::withdraw(std::uint64_t request, const std::string& patience) {
  Calls calls;
  {
    const std::lock_guard lock(mutex_);
    const auto found = batches_.find(request);
    if (found == batches_.end()) return;
    const std::shared_ptr<Batch> batch = found->second;
    for (const std::uint32_t index : batch->gpus) {
      if (batch->answers.contains(index)) continue;
      const std::size_t taken =
          std::erase_if(queues_[index].items, [&](const Item& item) { return item.batch == batch; });
      batch->answers.emplace(
          index, taken > 0 ? fail(ErrorCode::busy, gpu_name(index) + ": withdrawn after " + patience +
                                                       ": commands before it have not ended, so it was not started")
                           : fail(ErrorCode::busy, gpu_name(index) + ": started, and not ended after " + patience +
                                                       ": the log and the events will say how it ended"));
    }
    settle_all(batch, calls);
  }
  for (const auto& call : calls) call();
}

void ControlQueues::settle(const std::shared_ptr<Batch>& batch, std::uint32_t gpu, Result<Reading> result,
                           Calls& calls) {
  if (!batch || !batches_.contains(batch->request)) return;
  batch->answers.emplace(gpu, std::move(result));
  if (batch->answers.size() == batch->gpus.size()) settle_all(batch, calls);
}

void ControlQueues::settle_all(const std::shared_ptr<Batch>& batch, Calls& calls) {
  batches_.erase(batch->request);
  calls.push_back([answer = std::move(batch->answer), answers = std::move(batch->answers)] { answer(answers); });
}

void ControlQueues::work(std::uint32_t index) {
  Queue& queue = queues_[index];
  for (;;) {
    Item item;
    {
      std::unique_lock lock(mutex_);
      queue.wake.wait(lock, [&] { return stopping_ || !queue.items.empty(); });
      if (stopping_) return;
      item = std::move(queue.items.front());
      queue.items.pop_front();
    }
    Calls calls;
    try {
      auto result = execute(index, item);
      const std::lock_guard lock(mutex_);
      settle(item.batch, index, std::move(result), calls);
    } catch (const std::exception& thrown) {
      return end_worker(index, item, thrown.what());
    } catch (...) {
      return end_worker(index, item, "an unknown exception");
    }
    for (const auto& call : calls) call();
  }
}

Result<Reading> ControlQueues::execute(std::uint32_t index, const Item& item) {
  GpuManager& gpu = *gpus_[index];
  const std::uint64_t began_ns = steady_now_ns();
  const bool writes = is_write(item.command.operation);
  Executed executed;
  executed.from = writes ? value_of(index, item.command.operation) : "";
  executed.result = gpu.perform(item.command);
  if (writes && executed.result) {
    const std::lock_guard lock(mutex_);
    Queue& queue = queues_[index];
    switch (item.command.operation) {
      case Operation::set_gpu_locked_clocks: queue.gpu_clocks = item.command.clocks; break;
      case Operation::set_mem_locked_clocks: queue.mem_clocks = item.command.clocks; break;
      case Operation::reset_gpu_locked_clocks: queue.gpu_clocks = {}; break;
      case Operation::reset_mem_locked_clocks: queue.mem_clocks = {}; break;
      case Operation::reset_locked_clocks: queue.gpu_clocks = queue.mem_clocks = {}; break;
      default: break;
    }
  }
  executed.to = writes ? value_of(index, item.command.operation) : "";
  const std::uint64_t driver_ns = steady_now_ns() - began_ns;
  executed.gpu = index;
  executed.request = item.request;
  executed.caller = item.caller;
  executed.command = item.command;
  executed.superseded = item.superseded;
  executed.awaited = item.batch != nullptr;
  executed.done_ns = steady_now_ns() - item.arrived_ns;
  const std::uint64_t waited_ns = began_ns - item.queued_ns;
  executed.overhead_ns = executed.done_ns - std::min(executed.done_ns, waited_ns + driver_ns);
  if (done_) done_(executed);
  return std::move(executed.result);
}

// Returns the control's value after a write; empty if unknown.
std::string ControlQueues::value_of(std::uint32_t index, Operation operation) const {
  GpuManager& gpu = *gpus_[index];
  switch (operation) {
    case Operation::set_persistence_mode: {
      const auto mode = gpu.read(Operation::get_persistence_mode);
      return !mode ? "" : *mode != 0 ? "on" : "off";
    }
    case Operation::set_power_limit: {
      const auto limit = gpu.read(Operation::get_power_limit);
      return limit ? watts_text(*limit) : "";
    }
    case Operation::set_gpu_locked_clocks:
    case Operation::reset_gpu_locked_clocks: return clocks_text(locked_clocks(index, Operation::set_gpu_locked_clocks));
    case Operation::set_mem_locked_clocks:
    case Operation::reset_mem_locked_clocks: return clocks_text(locked_clocks(index, Operation::set_mem_locked_clocks));
    case Operation::set_compute_mode: {
      const auto mode = gpu.read(Operation::get_compute_mode);
      return mode ? std::to_string(*mode) : "";
    }
    default: return "";
  }
}

ClockRange ControlQueues::locked_clocks(std::uint32_t index, Operation set) const {
  const std::lock_guard lock(mutex_);
  const Queue& queue = queues_[index];
  return set == Operation::set_gpu_locked_clocks ? queue.gpu_clocks : queue.mem_clocks;
}

void ControlQueues::end_worker(std::uint32_t index, const Item& running, const std::string& why) {
  Calls calls;
  {
    const std::lock_guard lock(mutex_);
    Queue& queue = queues_[index];
    queue.ended = why;
    const Error error = ended_error(index, why);
    settle(running.batch, index, std::unexpected(error), calls);
    for (const Item& item : queue.items) settle(item.batch, index, std::unexpected(error), calls);
    queue.items.clear();
  }
  for (const auto& call : calls) call();
}

std::size_t ControlQueues::waiting(std::uint32_t index) const {
  const std::lock_guard lock(mutex_);
  return queues_[index].items.size();
}

}  // namespace headgate::power
