#include <algorithm>
#include <cmath>
#include <ctime>
#include <thread>

#include "fact.hpp"

namespace headgate::gpu_facts {

namespace {

constexpr int kSamples = 64;

// Median ns of one call, over `count` calls on as many events.
template <typename Call>
Result<double> cost(int count, Call call) {
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    const std::int64_t before = now_ns();
    const CUresult result = call(i);
    times.push_back(static_cast<double>(now_ns() - before));
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) {
      return std::unexpected(check("measured call", result).error());
    }
  }
  return median(times);
}

struct Events {
  const Driver& driver;
  std::vector<CUevent> all;

  static Result<Events> make(const Driver& driver, int count) {
    Events events{driver, {}};
    for (int i = 0; i < count; ++i) {
      CUevent event = nullptr;
      TRY(check("cuEventCreate", driver.cuEventCreate(&event, 0)));
      events.all.push_back(event);
    }
    return events;
  }
  Events(const Driver& with, std::vector<CUevent> these) : driver(with), all(std::move(these)) {}
  Events(Events&& other) noexcept : driver(other.driver), all(std::move(other.all)) {}
  ~Events() {
    for (const CUevent event : all) {
      driver.cuEventDestroy(event);
    }
  }
};

// The best of several tries: host time just after an event completed, with the event.
struct Moment {
  CUevent event;
  std::int64_t host_ns, width_ns;
};

Result<Moment> best_moment(const Card& card, const Events& events) {
  Moment best{nullptr, 0, INT64_MAX};
  for (const CUevent event : events.all) {
    const std::int64_t before = now_ns();
    TRY(check("cuEventRecord", card.driver.cuEventRecord(event, card.stream)));
    TRY(check("cuEventSynchronize", card.driver.cuEventSynchronize(event)));
    const std::int64_t after = now_ns();
    if (after - before < best.width_ns) {
      best = {event, before + (after - before) / 2, after - before};
    }
  }
  return best;
}

}  // namespace

Result<Json> event_costs(const Card& card) {
  const Events events = TRY(Events::make(card.driver, kSamples));
  const auto record = [&](int i) {
    return card.driver.cuEventRecord(events.all[static_cast<std::size_t>(i)], card.stream);
  };
  const auto query = [&](int i) { return card.driver.cuEventQuery(events.all[static_cast<std::size_t>(i)]); };
  Json json;
  TRY(check("cuStreamSynchronize", card.driver.cuStreamSynchronize(card.stream)));
  json["record_idle_ns"] = TRY(cost(kSamples, record));
  TRY(check("cuStreamSynchronize", card.driver.cuStreamSynchronize(card.stream)));
  json["query_idle_ns"] = TRY(cost(kSamples, query));
  float milliseconds = 0;
  json["elapsed_time_ns"] = TRY(cost(kSamples - 1, [&](int i) {
    return card.driver.cuEventElapsedTime(&milliseconds, events.all[static_cast<std::size_t>(i)],
                                          events.all[static_cast<std::size_t>(i) + 1]);
  }));
  json["launch_idle_ns"] =
      TRY(cost(kSamples, [&](int) { return launch_busy(card.driver, card.kernel, 1, card.stream); }));
  TRY(check("cuStreamSynchronize", card.driver.cuStreamSynchronize(card.stream)));
  // Fills half of a queue of about 1024 and measures records and queries behind it; a full queue would block them.
  for (int i = 0; i < 500; ++i) {
    TRY(check("cuLaunchKernel", launch_busy(card.driver, card.kernel, 100, card.stream)));
  }
  json["record_behind_500_launches_ns"] = TRY(cost(kSamples, record));
  json["query_behind_500_launches_ns"] = TRY(cost(kSamples, query));
  json["launch_behind_500_launches_ns"] =
      TRY(cost(kSamples, [&](int) { return launch_busy(card.driver, card.kernel, 1, card.stream); }));
  TRY(check("cuStreamSynchronize", card.driver.cuStreamSynchronize(card.stream)));
  return json;
}

Result<Json> clock_drift(const Card& card) {
  const Events first = TRY(Events::make(card.driver, kSamples)), second = TRY(Events::make(card.driver, kSamples));
  const Moment start = TRY(best_moment(card, first));
  std::this_thread::sleep_for(std::chrono::seconds(4));  // the time for which an anchor is trusted
  const Moment end = TRY(best_moment(card, second));
  float milliseconds = 0;
  TRY(check("cuEventElapsedTime", card.driver.cuEventElapsedTime(&milliseconds, start.event, end.event)));
  const double host_ms = static_cast<double>(end.host_ns - start.host_ns) * 1e-6;
  return Json{{"drift_ppm", (static_cast<double>(milliseconds) - host_ms) / host_ms * 1e6},
              {"uncertainty_ppm", static_cast<double>(start.width_ns + end.width_ns) * 1e-6 / host_ms * 1e6 / 2},
              {"over_ms", host_ms}};
}

Result<Json> queue_depth(const Card& card) {
  // A kernel of half a second blocks the stream. The first launch that takes milliseconds found the queue full.
  TRY(check("cuLaunchKernel", launch_busy(card.driver, card.kernel, 500'000, card.stream)));
  for (int launches = 1; launches < 100'000; ++launches) {
    const std::int64_t before = now_ns();
    TRY(check("cuLaunchKernel", launch_busy(card.driver, card.kernel, 1, card.stream)));
    if (const std::int64_t took = now_ns() - before; took > 50'000'000) {
      TRY(check("cuStreamSynchronize", card.driver.cuStreamSynchronize(card.stream)));
      return Json{{"launches_before_blocking", launches}, {"blocked_ns", took}};
    }
  }
  TRY(check("cuStreamSynchronize", card.driver.cuStreamSynchronize(card.stream)));
  return fail(ErrorCode::failed, "100000 launches did not fill the queue");
}

// Kernels of 100 us with an event after each: in an interval far above 100 us another context had the GPU.
Result<Json> time_slice(const Card& card) {
  constexpr int kKernels = 900;
  constexpr double kKernelUs = 100;
  const Events events = TRY(Events::make(card.driver, kKernels + 1));
  TRY(check("cuEventRecord", card.driver.cuEventRecord(events.all[0], card.stream)));
  for (int i = 0; i < kKernels; ++i) {
    TRY(check("cuLaunchKernel", launch_busy(card.driver, card.kernel, kKernelUs, card.stream)));
    TRY(check("cuEventRecord", card.driver.cuEventRecord(events.all[static_cast<std::size_t>(i) + 1], card.stream)));
  }
  TRY(check("cuStreamSynchronize", card.driver.cuStreamSynchronize(card.stream)));
  std::vector<double> away, stayed;
  double since = 0;
  for (int i = 0; i < kKernels; ++i) {
    float milliseconds = 0;
    TRY(check("cuEventElapsedTime",
              card.driver.cuEventElapsedTime(&milliseconds, events.all[static_cast<std::size_t>(i)],
                                             events.all[static_cast<std::size_t>(i) + 1])));
    const double us = static_cast<double>(milliseconds) * 1e3;
    if (us > 3 * kKernelUs) {
      away.push_back(us - kKernelUs);
      stayed.push_back(since);
      since = 0;
    } else {
      since += us;
    }
  }
  return Json{{"gaps", away.size()},
              {"away_median_us", away.empty() ? 0 : median(away)},
              {"stayed_median_us", stayed.empty() ? 0 : median(stayed)}};
}

}  // namespace headgate::gpu_facts
