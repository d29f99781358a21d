#include "sim/driver/stream/payload.hpp"

#include <pthread.h>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <deque>
#include <map>
#include <thread>

#include "sim/driver/memory/mappings.hpp"

namespace headgate::sim::driver {
namespace {

struct Payload {
  std::uint32_t stream;
  std::uint64_t number;
  std::function<void()> act;
};

struct HostFunction {
  std::uint32_t stream;
  std::uint64_t number;
  std::function<void(CUresult)> act;
  CUresult status = CUDA_SUCCESS;
};

struct Payloads {
  std::mutex running;  // one thread at a time moves data, to keep the order
  std::mutex lock;
  std::deque<Payload> waiting;
  std::atomic<std::size_t> count{0};
};
Payloads& payloads() { return forever<Payloads>(); }

struct HostFunctions {
  std::mutex lock;
  std::condition_variable arrived;
  std::deque<HostFunction> waiting;
  bool started = false;
};
HostFunctions& host_functions() { return forever<HostFunctions>(); }

struct Flags {
  std::mutex lock;
  std::map<std::uint64_t, std::uint32_t> numbers, words;  // value or address -> the node's flag
  std::atomic<std::size_t> word_count{0};
  // The last value seen in each word of host memory. The CPU writes these without a driver call.
  std::map<std::uint64_t, std::uint64_t> host_words;
  std::atomic<std::size_t> host_word_count{0};
};
Flags& flags() { return forever<Flags>(); }

// Takes the first waiting function with its command reached; if there is none, sleeps until one may be.
bool take_reached(HostFunction* out) {
  HostFunctions& functions = host_functions();
  std::deque<std::pair<std::uint32_t, std::uint64_t>> candidates;
  {
    std::unique_lock guard(functions.lock);
    functions.arrived.wait(guard, [&] { return !functions.waiting.empty(); });
    for (auto it = functions.waiting.begin(); it != functions.waiting.end(); ++it) {
      candidates.emplace_back(it->stream, it->number);
      if (it->stream != kNone) continue;
      *out = std::move(*it);
      functions.waiting.erase(it);
      return true;
    }
  }
  std::uint64_t until = kNever;
  std::pair<std::uint32_t, std::uint64_t> reached{kNone, 0};
  CUresult status = CUDA_SUCCESS;
  {
    Node::Advanced locked(*library().node);
    for (const auto& [stream, number] : candidates) {
      if (locked->host_reached(stream, number)) {
        reached = {stream, number};
        const State& state = locked->state();
        status = static_cast<CUresult>(state.contexts[state.streams[stream].context].error);
        break;
      }
      until = std::min(until, locked->earliest_finish_ns(stream, number - 1));
    }
  }
  if (reached.first == kNone) {
    library().node->sleep_until(until);
    return false;
  }
  const std::lock_guard guard(functions.lock);
  for (auto it = functions.waiting.begin(); it != functions.waiting.end(); ++it) {
    if (it->stream != reached.first || it->number != reached.second) continue;
    *out = std::move(*it);
    out->status = status;
    functions.waiting.erase(it);
    return true;
  }
  return false;
}

void host_thread() {
  while (life.load(std::memory_order_acquire) == Life::ready) {
    HostFunction function;
    if (!take_reached(&function)) continue;
    run_due_payloads();
    function.act(function.status);
    if (function.stream == kNone) continue;
    Node::Advanced(*library().node)->host_done(function.stream);
  }
}

// Blocks all signals in this thread, because they are for the program's threads.
void start_host_thread() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread(host_thread).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void wake_host_thread(HostFunction function) {
  HostFunctions& functions = host_functions();
  const std::lock_guard guard(functions.lock);
  functions.waiting.push_back(std::move(function));
  if (!functions.started) start_host_thread();
  functions.started = true;
  functions.arrived.notify_one();
}

// Returns the memory's value as a flag sees it; 0 if there is no memory.
std::uint64_t word_at(std::uint64_t address) {
  std::uint64_t word = 0;
  const std::size_t bytes = is_device_address(address, 8) ? 8 : is_device_address(address, 4) ? 4 : 0;
  std::memcpy(&word, reinterpret_cast<const void*>(address), bytes);
  return word;
}

}  // namespace

void add_payload(Stream* stream, std::uint64_t number, std::function<void()> act) {
  Payloads& all = payloads();
  const std::lock_guard guard(all.lock);
  all.waiting.push_back({stream->index, number, std::move(act)});
  all.count.store(all.waiting.size(), std::memory_order_release);
}

bool payloads_pending() { return payloads().count.load(std::memory_order_acquire) > 0; }

void run_due_payloads() {
  if (!payloads_pending()) return;
  Payloads& all = payloads();
  const std::lock_guard one_at_a_time(all.running);
  std::vector<Payload> due;
  {
    const State& state = library().state();
    const std::lock_guard guard(all.lock);
    std::deque<Payload> later;
    for (Payload& payload : all.waiting) {
      const auto& head = state.streams[payload.stream].head;
      const bool complete =
          std::atomic_ref(const_cast<std::uint64_t&>(head)).load(std::memory_order_acquire) >= payload.number;
      const std::uint64_t dropped_from = state.streams[payload.stream].dropped_from;
      if (complete && dropped_from != 0 && payload.number >= dropped_from) continue;
      if (complete) due.push_back(std::move(payload));
      else later.push_back(std::move(payload));
    }
    all.waiting.swap(later);
  }
  for (const Payload& payload : due) payload.act();
  const std::lock_guard guard(all.lock);
  all.count.store(all.waiting.size(), std::memory_order_release);
}

CUresult submit_host_function(Stream* stream, std::function<void(CUresult)> act) {
  const std::lock_guard in_order(stream->context->lock);
  return submit_host_function_locked(stream, std::move(act));
}

CUresult submit_host_function_locked(Stream* stream, std::function<void(CUresult)> act) {
  Command command;
  command.kind = CommandKind::host_function;
  std::uint64_t number = 0;
  SIM_TRY(submit_locked(stream, command, &number));
  wake_host_thread({stream->index, number, std::move(act)});
  return CUDA_SUCCESS;
}

void run_on_host_thread(std::function<void()> act) {
  wake_host_thread({kNone, 0, [act = std::move(act)](CUresult) { act(); }});
}

std::uint32_t flag_of(std::uint64_t value, bool* word_in_memory) {
  Flags& all = flags();
  *word_in_memory = value > 0xffffffffu || is_device_address(value, sizeof(std::uint32_t));
  // Apply pending copies before the word is read. Applied later, they would overwrite what a kernel sets.
  if (*word_in_memory && payloads_pending()) {
    Node::Locked(*library().node).advance();
    run_due_payloads();
  }
  const std::uint64_t shared = *word_in_memory ? shared_key(value) : 0;
  const std::lock_guard guard(all.lock);
  auto& known = *word_in_memory ? all.words : all.numbers;
  if (const auto found = known.find(value); found != known.end()) return found->second;
  Node::Advanced locked(*library().node);
  const std::uint32_t flag =
      locked->flag(*word_in_memory && shared == 0 ? library().node->process() : kNone, shared != 0 ? shared : value);
  if (flag == kNone) return kNone;
  known[value] = flag;
  if (!*word_in_memory) return flag;
  all.word_count.store(all.words.size(), std::memory_order_release);
  std::uint64_t word = word_at(value);
  if (Allocation found; find_allocation(value, &found) && found.type == MemoryType::host) {
    all.host_words[value] = word;
    all.host_word_count.store(all.host_words.size(), std::memory_order_release);
  }
  // A kernel of another process may have set a value that its process has still to write to memory.
  if ((word & 0xffffffff) == 0) word |= locked->state().flags[flag].value & 0xffffffff;
  if (word != 0) locked->write_flag(flag, word);
  return flag;
}

// Copies only words that the CPU changed since the last look: values set by kernels may still be missing in memory.
void look_at_host_words() {
  Flags& all = flags();
  if (all.host_word_count.load(std::memory_order_acquire) == 0) return;
  const std::lock_guard guard(all.lock);
  for (auto& [address, seen] : all.host_words) {
    if (!is_pinned(address, sizeof(std::uint32_t))) continue;  // it was freed
    const std::uint64_t word = word_at(address);
    if (word == seen) continue;
    seen = word;
    Node::Advanced(*library().node)->write_flag(all.words.at(address), word);
  }
}

bool memory_flags_in_use() { return flags().word_count.load(std::memory_order_acquire) > 0; }

void refresh_flags(std::uint64_t address, std::uint64_t bytes, std::uint64_t except) {
  if (!memory_flags_in_use()) return;
  Flags& all = flags();
  const std::lock_guard guard(all.lock);
  auto it = all.words.lower_bound(address >= 7 ? address - 7 : 0);
  if (it == all.words.end() || it->first >= address + bytes) return;
  Node::Advanced locked(*library().node);
  for (; it != all.words.end() && it->first < address + bytes; ++it) {
    if (it->first == except) continue;
    // The neighbouring half was not written, so it keeps the flag's value: memory may not show what kernels set.
    std::uint64_t word = word_at(it->first);
    if (address >= it->first + 4)
      word = (word & ~0xffffffffull) | (locked->state().flags[it->second].value & 0xffffffff);
    locked->write_flag(it->second, word);
  }
}

}  // namespace headgate::sim::driver
