// A modelled machine for the exactness tests: clients and settlers use the real Meter, on the simulator's engine, in
// virtual time. Wake-ups are late by recorded amounts; every launch, record and query costs its thread time.
#pragma once

#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <vector>

#include "guest/limiter/compute/meter.hpp"
#include "sim/engine.hpp"

namespace headgate::limiter::model {

// Nanoseconds, sorted: means of the thousandths of 20,100 wake-ups on a 2-core virtual machine, timer slack 1 ns. Each
// is the lateness of a nanosleep of 0.1 to 1 ms. The machine was also used for builds that day. Sleeps were taken 300
// at a time, only if at most one other thread was runnable before and after and the cores were 80 % idle in between (67
// of 4,622 tries).
std::span<const std::int64_t> recorded_lateness();
// The same machine with eight compilers running, in two-hundredths: one wake-up in 100 is 1 to 4 ms late.
std::span<const std::int64_t> stalling_lateness();

struct Kernel {
  std::uint64_t function = 1;
  std::int64_t duration_ns = 0;
  std::int64_t call_ns = 0;   // duration of the launch call, e.g. for a graph of many nodes; 0: that of a kernel
  std::int64_t rings_ns = 0;  // of that call, until the GPU gets the work
};
using KernelMix = std::function<Kernel(std::mt19937_64&)>;
KernelMix constant(std::int64_t duration_ns);
// Four kernels with lognormal durations around 100 us, at most 2 ms.
KernelMix lognormal();

// Another share on the same GPU with one process, one thread and one stream. It uses the GPU in [from_ns, until_ns)
// after the start.
struct Neighbour {
  std::uint32_t ceiling_ppm;
  KernelMix mix;
  std::uint32_t burst_ppm = 0;
  std::int64_t from_ns = 0, until_ns = INT64_MAX;
};

struct Setup {
  std::uint32_t ceiling_ppm = 500'000;
  KernelMix mix;
  int processes = 1;
  int threads = 1;                   // per process
  int streams = 1;                   // per process, assigned to its threads in turn
  std::int64_t launch_every_ns = 0;  // host time between launches of a thread; 0: only a launch's own cost
  std::uint32_t sms = 132;
  std::int64_t clock_drift_ppb = 12'000;  // gain of the GPU clock
  std::span<const std::int64_t> lateness = recorded_lateness();
  // The first thread's first kernel spins until the fourth kernel of the second thread (or of the second process, if
  // any) ends.
  bool spin = false;
  std::uint32_t burst_ppm = 0;
  std::vector<Neighbour> beside{};
  std::int64_t settler_stall_ns = 0;  // after a second, every settler stalls once for this long
  std::uint64_t seed = 1;
};

struct Counts {
  std::uint64_t launches = 0, records = 0, queries = 0, settler_enqueues = 0, waits = 0;
};

// The modelled hardware, and the current thread's time.
struct Hardware {
  explicit Hardware(const sim::Profile& profile) : state(sim::make_state(profile, kStartNs)), engine(*state) {}
  Counts counts;
  std::int64_t clock_ns = 0;  // of the current thread
  std::int64_t step_ns = 0;   // start of its turn
  sim::StatePointer state;
  sim::Engine engine;
  static constexpr std::int64_t kStartNs = 10'000'000'000;
  static constexpr std::int64_t kLaunchCostNs = 1'500, kRecordCostNs = 500, kQueryCostNs = 400;
};

// Implements Meter's Port: this machine's clock and GPU as one process sees them.
struct ModelPort {
  Hardware* machine = nullptr;
  std::uint32_t process = 0, context = 0;
  const std::uint32_t *ceiling = nullptr, *burst = nullptr;
  bool settling = false;
  std::int64_t now_ns();
  abi::CUresult create(abi::CUevent* event);
  void destroy(abi::CUevent event);
  abi::CUresult record(abi::CUevent event, abi::CUstream stream);
  abi::CUresult query(abi::CUevent event);
  abi::CUresult elapsed(float* ms, abi::CUevent start, abi::CUevent end);
  abi::CUresult idle(abi::CUstream stream, ContextMeter& context);
  void enter(ContextMeter&) {}
  void failed(ContextMeter&, abi::CUresult, const char*);
  std::uint32_t ceiling_ppm(const ContextMeter&) const;
  std::uint32_t burst_ppm(const ContextMeter&) const;
};

struct Process {
  ModelPort port;
  Estimates estimates;
  Pace pace;
  ContextMeter context;
  std::vector<StreamMeter> streams;
  std::vector<std::uint32_t> engine_streams;
  std::unique_ptr<Meter<ModelPort>> meter;
  const KernelMix* mix = nullptr;
  std::uint64_t order = 0;
  bool settler_idle = true;
};

class Machine : public Hardware {
 public:
  explicit Machine(const Setup& setup);
  // Runs until `until_ns` after the start.
  void run(std::int64_t until_ns);
  // Truth: percent of [from, to) after the start with the GPU held, both multiples of 10 ms.
  double held_percent(std::int64_t from_ns, std::int64_t to_ns) const;
  // Returns the time in that interval with an idle GPU and an open gate while the only client overslept by 0.2 ms or
  // more. 0 with several threads, because any of them might have launched.
  std::int64_t unasked_ns(std::int64_t from_ns, std::int64_t to_ns) const;
  double charged_percent() const;
  // Truth: percent of [from, to) held by process `index`. Runs to `to`; the machine must have been run to `from` at
  // most.
  double process_percent_until(int index, std::int64_t from_ns, std::int64_t to_ns);
  // Truth: percent of GPU time held so far by process `index`; neighbours come after the share's own processes.
  double process_percent(int index) const;
  // Returns the GPU time charged so far: measured, plus estimates for what is not settled.
  std::int64_t charged_ns() const;
  std::int64_t truth_ns() const { return static_cast<std::int64_t>(state->devices[0].busy_ns); }
  double estimated_part() const;
  Process& process(std::size_t index) { return *processes_[index]; }

  std::uint32_t ceiling_ppm, burst_ppm;
  ledger::ComputeAccount account{};
  std::vector<std::unique_ptr<ledger::ComputeAccount>> neighbours;
  std::unique_ptr<ledger::GpuPage> page;  // if there are neighbours
  bool met = false;                       // the spin of Setup::spin has ended
  std::vector<std::int64_t> sent_ns;      // the kernels' lengths, in order of launch
  std::int64_t most_ahead_ns = 0;         // peak of one process's estimated work in flight, without its newest command

 private:
  struct Actor {
    int process = 0;
    bool settler = false;
    std::vector<std::uint32_t> streams;
    std::size_t next_stream = 0;
    std::int64_t asked_ns = 0;
    std::int64_t due_ns = 0;  // when a wait should have ended; 0: no wait
    bool has_kernel = false;
    int thread = 0;
    bool stalled = false;
    const Neighbour* neighbour = nullptr;
    int launched = 0;
    Kernel kernel;
  };
  struct Turn {
    std::int64_t at_ns;
    std::uint64_t number;
    std::size_t actor;
    bool operator>(const Turn& other) const { return std::tie(at_ns, number) > std::tie(other.at_ns, other.number); }
  };
  void turn(std::size_t actor, std::int64_t at_ns);
  std::int64_t late();
  void client(Actor& actor, std::size_t index);
  std::int64_t idle_since(const Process& process);
  void note_unasked(std::int64_t from_ns);
  void settler(Actor& actor, std::size_t index);
  void wake_settler(int process);

  Setup setup_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<Actor> actors_;
  std::vector<std::size_t> settler_of_;
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns_;
  std::uint64_t turn_number_ = 0;
  std::vector<std::int64_t> unasked_;  // per 10 ms
};

}  // namespace headgate::limiter::model
